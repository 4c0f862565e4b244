package history

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
)

// ErrLost is returned by [Recorder.Err] when lines were dropped.
var ErrLost = errors.New("lines were not written in time")

// Recorder stamps events and records them in the order of the calls. It is safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	w      io.Writer // nil: events are kept in memory
	events []Event
	err    error
}

// NewRecorder returns a recorder that writes each event to w at once, with one Write for each line.
// So lines of several writers do not mix in a file that is opened for appending.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

// NewMemory returns a recorder that keeps its events in memory.
func NewMemory() *Recorder { return &Recorder{} }

// Add stamps e, unless it has a time, and records it. A failed write ends the recording, and its
// error is kept for [Recorder.Err].
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if r.w == nil {
		r.events = append(r.events, e)
		return
	}
	if r.err == nil {
		_, r.err = io.WriteString(r.w, e.String()+"\n")
	}
}

// Err returns the error that ended the recording, [ErrLost] when lines were dropped, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q, ok := r.w.(*Queued); ok && r.err == nil {
		return q.Err()
	}
	return r.err
}

// Events returns what a recorder of [NewMemory] has kept.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Queued is a writer for a [Recorder] to a file that may block. Nobody waits for it. When it drops
// lines it writes a line "lost" of proc. It keeps the file's first error and writes nothing after.
type Queued struct {
	*asynclog.Writer
	out *firstErrorWriter
}

// NewQueued returns a writer to w. Proc is asked when lines were dropped.
func NewQueued(w io.Writer, proc func() string) *Queued {
	file := &firstErrorWriter{to: w}
	return &Queued{asynclog.NewLargeWriter(file, func(_ int, since time.Time) string {
		now := time.Now()
		return Event{At: now, Verb: Lost, Proc: proc(), For: now.Sub(since)}.String() + "\n"
	}), file}
}

// Write fails when the file has failed.
func (q *Queued) Write(p []byte) (int, error) {
	if err := q.out.failed(); err != nil {
		return 0, err
	}
	return q.Writer.Write(p)
}

// Err returns what has kept lines from being written: the file's error, or ErrLost.
func (q *Queued) Err() error {
	if err := q.out.failed(); err != nil {
		return err
	}
	if n := q.Dropped(); n > 0 {
		return fmt.Errorf("%w: %d of them", ErrLost, n)
	}
	return nil
}

// firstErrorWriter writes until the first error and keeps it.
type firstErrorWriter struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

func (k *firstErrorWriter) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

func (k *firstErrorWriter) Write(p []byte) (int, error) {
	if err := k.failed(); err != nil {
		return 0, err
	}
	n, err := k.to.Write(p)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	return n, err
}
