package history

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
)

// ErrLost is returned by [Recorder.Err] when a line was not written in time. The history breaks off
// before that line.
var ErrLost = errors.New("a line was not written in time")

// Recorder stamps events and records them in the order of the calls. It is safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	w      io.Writer        // nil: events are kept in memory
	queue  *asynclog.Writer // in front of w; nil: none
	events []Event
	err    error
}

// NewRecorder returns a recorder that writes each event to w at once, with one Write for each line.
// So lines of several writers do not mix in a file that is opened for appending.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

// NewQueued returns a recorder to a file that may block: [Recorder.Add] never waits for it.
func NewQueued(w io.Writer) *Recorder {
	r := &Recorder{}
	r.queue = asynclog.NewLargeWriter(writerFunc(func(p []byte) (int, error) {
		n, err := w.Write(p)
		r.fail(err)
		return n, err
	}), func(int, time.Time) string { return "# it breaks off here\n" })
	r.w = r.queue
	return r
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

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
	if r.err == nil && r.queue != nil && r.queue.Dropped() > 0 {
		r.err = ErrLost
	}
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// Err returns the error that ended the recording, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Flush waits until all is written, for limit at the most, and reports whether it is.
func (r *Recorder) Flush(limit time.Duration) bool { return r.queue == nil || r.queue.Flush(limit) }

// Events returns what a recorder of [NewMemory] has kept.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
