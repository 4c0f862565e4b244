package member

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// WorkRecords is what the work of each item here has done by itself: the items' children write it,
// and the state-publisher reads it.
type WorkRecords struct {
	changed *messages.State[uint64]
	limit   restartLimit
	stop    time.Duration // that work has to end when it is told to stop

	mu    sync.Mutex
	n     uint64
	items map[string]*workRecord
	ended protocol.LeaseEnd
}

// workRecord is one item's, since its work was started here. The mutex of its WorkRecords guards
// it.
type workRecord struct {
	of       *WorkRecords
	begun    time.Time // of this run; zero: it does not run
	restarts int       // ends while the item was owned
	inRow    int       // of them, those since the last run that was healthy
	row      time.Time // when the first of those was
	exit     string    // what the last one said
	exitAt   time.Time
	next     time.Time    // the next start, as the supervisor's policy said
	again    uint64       // the order to restart that it was started after
	payload  *itemChanges // what it was called with; nil: the leader tells of changes
	check    string       // why the check of this run fails; empty: it does not
	ended    []time.Time  // by itself lately, as far as that may exceed the limit
}

// restartLimit is how often work may end by itself within a window before its item is given up.
type restartLimit struct {
	most   int // 0: there is no limit
	window time.Duration
}

// Work that has ended so often in a row loops. A run that has lasted for healthyAfter ends the row:
// the supervisor's pauses begin anew then as well.
const (
	loopsAfter   = 3
	healthyAfter = supervisor.DefaultHealthyAfter
)

// NewWorkRecords keeps records of work that may end by itself so often within a window; most 0:
// for ever. Work is given stop to end.
func NewWorkRecords(most int, window, stop time.Duration) *WorkRecords {
	return &WorkRecords{changed: messages.NewState[uint64](0), items: map[string]*workRecord{},
		stop: stop, limit: restartLimit{most, window}}
}

// open begins the record of an item that is started here, after an order to restart it.
func (w *WorkRecords) open(id string, again uint64, payload *itemChanges) *workRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &workRecord{of: w, again: again, payload: payload}
	w.items[id] = r
	return r
}

// keep drops the records of items that are not held any more.
func (w *WorkRecords) keep(held func(id string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.items {
		if !held(id) {
			delete(w.items, id)
		}
	}
}

// leaseEnds: the work under a grant has ended for want of a lease, which is no failure of its own.
// Its record goes with it, so this is noted for all.
func (w *WorkRecords) leaseEnds(why string, grant uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = protocol.LeaseEnd{Why: why, At: time.Now().UTC(), Upto: max(w.ended.Upto, grant)}
	w.n++
	w.changed.Set(w.n)
}

func (w *WorkRecords) leaseEnd() protocol.LeaseEnd {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// get returns a copy of an item's record.
func (w *WorkRecords) get(id string) workRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.items[id]; r != nil {
		return *r
	}
	return workRecord{}
}

// running counts the items of which the work runs.
func (w *WorkRecords) running(h facts.Holdings) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, item := range h.Items.All() {
		if r := w.items[id]; item.Phase == facts.Running && r != nil && !r.begun.IsZero() {
			n++
		}
	}
	return n
}

func (r *workRecord) write(f func()) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	f()
	r.of.n++
	r.of.changed.Set(r.of.n)
}

// runs: a run of the work begins, or it does not run yet after all.
func (r *workRecord) runs(yes bool) {
	r.write(func() {
		if r.begun, r.next, r.check = (time.Time{}), (time.Time{}), ""; yes {
			r.begun = time.Now()
		}
	})
}

// checkFails: the check of this run fails, or does not any more.
func (r *workRecord) checkFails(why string) { r.write(func() { r.check = line(why) }) }

// ends: a run has ended although the item is owned still. It fails unless something else has ended
// it.
func (r *workRecord) ends(exit string, fails bool) {
	now := time.Now()
	r.write(func() {
		if !r.begun.IsZero() && now.Sub(r.begun) >= healthyAfter {
			r.inRow = 0
		}
		if r.inRow++; r.inRow == 1 {
			r.row = now
		}
		if most := r.of.limit.most; fails && most > 0 {
			r.ended = append(r.ended, now)
			r.ended = r.ended[max(0, len(r.ended)-most-1):]
		}
		r.restarts++
		r.begun, r.exit, r.exitAt = time.Time{}, exit, now
	})
}

// over tells whether the work has failed too often for its window, so that the leader is to take the
// item away, and when time alone ends that.
func (r workRecord) over(now time.Time) (over bool, until time.Time) {
	if len(r.ended) == 0 {
		return false, time.Time{}
	}
	limit := r.of.limit
	if len(r.ended) <= limit.most || r.ended[limit.most].Sub(r.ended[0]) > limit.window {
		return false, time.Time{}
	}
	if until = r.ended[0].Add(limit.window); now.Before(until) {
		return true, until
	}
	return false, time.Time{}
}

// loops tells whether the work loops, and when time alone will have ended that.
func (r workRecord) loops(now time.Time) (loops bool, until time.Time) {
	if over, until := r.over(now); over {
		return true, until // or until the leader has taken the item away
	}
	if r.inRow < loopsAfter {
		return false, time.Time{}
	}
	if r.begun.IsZero() {
		return true, time.Time{}
	}
	until = r.begun.Add(healthyAfter)
	return now.Before(until), until
}

// pauses is the policy by which the work is started again; it notes when that is.
type pauses struct {
	supervisor.Backoff
	record *workRecord
}

// NextBackOff is the default policy's.
func (p pauses) NextBackOff() time.Duration {
	d := p.Backoff.NextBackOff()
	next := time.Now().Add(d)
	p.record.write(func() { p.record.next = next })
	return d
}

// The pauses of work that ends by itself: the supervisor's own default.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

func (r *workRecord) backoff() supervisor.Backoff {
	return pauses{supervisor.Exponential(firstPause, longestPause)(), r}
}

// line makes a host's error one line of text of at most so many bytes.
func line(v any) string {
	text := strings.ToValidUTF8(fmt.Sprint(v), "?")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > protocol.MaxExitBytes {
		text = strings.ToValidUTF8(text[:protocol.MaxExitBytes-3], "") + "…"
	}
	return text
}
