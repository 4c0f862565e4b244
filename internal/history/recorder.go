package history

import (
	"io"
	"slices"
	"sync"
	"time"
)

// Recorder takes events in and stamps them. It is safe for concurrent use, and
// its order is that in which the calls were made.
type Recorder struct {
	mu     sync.Mutex
	w      io.Writer // nil: events are kept in memory
	events []Event
	err    error
}

// NewRecorder returns a recorder that writes each event to w at once, one Write
// for each line: on a file opened for appending no two writers mix.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

// NewMemory returns a recorder that keeps its events.
func NewMemory() *Recorder { return &Recorder{} }

// Add stamps e, unless it has a time, and records it. A failed write is kept for [Recorder.Err]
// and ends the recording: whatever is being recorded goes on.
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

// Err returns the error that ended the recording, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Events returns what a memory has kept.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
