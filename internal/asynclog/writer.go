package asynclog

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Writer is a writer that never waits: each Write is one entry of its queue. Errors of the writer behind it are not
// reported.
type Writer struct {
	queue *Queue
	to    io.Writer
}

// NewWriter returns a writer to w, with a queue of its own.
func NewWriter(w io.Writer) *Writer { return &Writer{NewQueue(), w} }

// Write takes p, and always succeeds.
func (w *Writer) Write(p []byte) (int, error) {
	w.queue.add(&line{w.to, bytes.Clone(p), time.Now()})
	return len(p), nil
}

// Handler returns a handler that writes to the same place in the same order: form makes the one that formats.
func (w *Writer) Handler(form func(io.Writer) slog.Handler) slog.Handler {
	return w.queue.Handler(form(w.to))
}

// Flush waits until all is written, for limit at the most, and reports whether it is.
func (w *Writer) Flush(limit time.Duration) bool { return w.queue.Flush(limit) }

type line struct {
	to   io.Writer
	text []byte
	when time.Time
}

func (l *line) size() int     { return len(l.text) + 64 }
func (l *line) at() time.Time { return l.when }
func (l *line) write()        { _, _ = l.to.Write(l.text) }

func (l *line) note(lost int, since time.Time) {
	fmt.Fprintf(l.to, "%d lines since %s were dropped: they were not read in time\n", lost, since.Format(time.RFC3339))
}
