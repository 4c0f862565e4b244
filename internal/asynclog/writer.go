package asynclog

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Writer is a writer that never waits: each Write is one entry of its queue. Errors of the writer
// behind it are not reported.
type Writer struct {
	queue *Queue
	to    io.Writer
	note  func(lost int, since time.Time) string
}

// NewWriter returns a writer to w, with a queue of its own.
func NewWriter(w io.Writer) *Writer { return &Writer{NewQueue(), w, dropped} }

// NewLargeWriter is NewWriter for lines that are wanted whole: 65,536 of them may wait, with 16
// MiB. Note is the line that says how many were dropped and when the first of them came.
func NewLargeWriter(w io.Writer, note func(lost int, since time.Time) string) *Writer {
	return &Writer{&Queue{maxEntries: 64 * maxEntries, maxBytes: 4 * maxBytes}, w, note}
}

func dropped(lost int, since time.Time) string {
	return fmt.Sprintf("%d lines since %s were dropped: they were not read in time\n", lost,
		since.Format(time.RFC3339))
}

// Write takes p, and always succeeds.
func (w *Writer) Write(p []byte) (int, error) {
	w.queue.add(&line{w, bytes.Clone(p), time.Now()})
	return len(p), nil
}

// Handler returns a handler that writes to the same place in the same order: form makes the one
// that formats.
func (w *Writer) Handler(form func(io.Writer) slog.Handler) slog.Handler {
	return w.queue.Handler(form(w.to))
}

// Flush waits until all is written, for limit at the most, and reports whether it is.
func (w *Writer) Flush(limit time.Duration) bool { return w.queue.Flush(limit) }

// Dropped is how many lines were dropped so far.
func (w *Writer) Dropped() int { return w.queue.Dropped() }

type line struct {
	*Writer
	text []byte
	when time.Time
}

func (l *line) size() int     { return len(l.text) + 64 }
func (l *line) at() time.Time { return l.when }
func (l *line) write()        { _, _ = l.to.Write(l.text) }

func (l *line) note(lost int, since time.Time) {
	_, _ = io.WriteString(l.to, l.Writer.note(lost, since))
}
