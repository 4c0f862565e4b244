package configstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/messages"
)

// submission is a write that the write queue is asked to take in.
type submission struct {
	ops      []Op
	unlogged bool // it does not go into the log, if there is one: nobody has asked for it
	call     *pendingCall
}

// receipt says what an acknowledged write did.
type receipt struct {
	index uint64            // of the transaction
	keys  map[string]uint64 // the index of each key now; 0: deleted
}

type request = messages.Request[submission, receipt]

// job is a write that was taken in.
type job struct {
	seq    uint64
	ops    []Op
	taken  time.Time
	logged bool
	// waited: the write had to wait. So it is applied only if its keys are as they were when it was
	// taken in.
	waited       bool
	maybeApplied bool // a request may be under way or applied
	unknown      bool // it may have been applied, by all that Consul has answered
	attempts     int  // how often the writer got it
	size         int
	request      *request // nil: it comes from the log
}

// sent tells whether an earlier try of the write may have been applied, by this process or by the
// one that logged it.
func (j *job) sent() bool { return j.maybeApplied || j.unknown || j.request == nil }

// guarded tells whether the caller has set a condition.
func (j *job) guarded() bool {
	return slices.ContainsFunc(j.ops, func(o Op) bool {
		return o.guard
	})
}

// creates tells whether the write makes a key that must not exist. If somebody deletes that key,
// the write can be applied a second time. No other write can: a key that it changes never has the
// index again that the write asks for.
func (j *job) creates() bool {
	return slices.ContainsFunc(j.ops, func(o Op) bool { return o.verb == verbSet && o.wants() == 0 })
}

// awaited tells whether someone still waits for it.
func (j *job) awaited() bool {
	return j.request != nil && j.request.Context().Err() == nil &&
		!j.request.Value.call.settled.Load()
}

// takeReply claims the right to answer the caller, who then waits for [job.answer]. It returns
// false if the caller has gone and counts on the log.
func (j *job) takeReply() bool {
	return j.request != nil && j.request.Value.call.settled.CompareAndSwap(false, true)
}

// answer tells the caller of a claimed job.
func (j *job) answer(r receipt, err error) {
	t := j.request.Value.call
	t.receipt, t.err = r, err
	close(t.answered)
	j.request.Reply(r, err)
}

// jobQueue is the queue of writes. It has no I/O and no clock. It decides whether a write is taken
// in, what the write is based on, and which write is next.
type jobQueue struct {
	maxJobs  int
	maxBytes int
	jobs     []*job
	bytes    int
	next     uint64 // the number of the next write
	latest   map[string]uint64
	// of own writes that others here may be based on: the index of each key
	done map[uint64]map[string]uint64
}

func newJobQueue(maxJobs, maxBytes int) *jobQueue {
	return &jobQueue{maxJobs: maxJobs, maxBytes: maxBytes, next: 1, latest: map[string]uint64{},
		done: map[uint64]map[string]uint64{}}
}

// join adds a write. The write is based on an earlier write of the queue to the same key, or else
// on what the cache shows.
func (l *jobQueue) join(s Snapshot, connected bool, now time.Time, r *request) (*job, error) {
	size := 0
	for _, o := range r.Value.ops {
		size += o.cost()
	}
	if len(l.jobs) >= l.maxJobs || l.bytes+size > l.maxBytes {
		l.dropAbandoned()
	}
	if len(l.jobs) >= l.maxJobs {
		return nil, fmt.Errorf("%w: %d writes wait for Consul: try again when it answers", ErrFull,
			len(l.jobs))
	}
	if l.bytes+size > l.maxBytes {
		return nil, fmt.Errorf("%w: %d bytes of writes wait for Consul: try again when it answers",
			ErrFull, l.bytes)
	}
	j := &job{seq: l.next, ops: slices.Clone(r.Value.ops), taken: now, waited: !connected,
		size:    size,
		request: r}
	for i := range j.ops {
		o := &j.ops[i]
		if e := s.find(o.key); e != nil {
			o.base, o.flags = e.Index, e.Flags
		}
		o.after = l.latest[o.key]
	}
	l.push(j)
	return j, nil
}

// push puts a job, new or from the log, at the end as it is.
func (l *jobQueue) push(j *job) {
	l.jobs = append(l.jobs, j)
	l.bytes += j.size
	l.next = max(l.next, j.seq+1)
	for _, o := range j.ops {
		if o.verb != verbExpect {
			l.latest[o.key] = j.seq
		}
	}
}

// dropAbandoned drops the writes whose callers went away before anything was sent. Nobody was
// promised them.
func (l *jobQueue) dropAbandoned() {
	for _, j := range slices.Clone(l.jobs) {
		if j.request != nil && !j.logged && j.attempts == 0 && !j.awaited() {
			l.drop(j)
		}
	}
}

// head returns the first write, ready to be sent, or nil.
func (l *jobQueue) head() *job {
	for len(l.jobs) > 0 {
		j := l.jobs[0]
		if j.request != nil && !j.logged && j.attempts == 0 && !j.awaited() {
			l.drop(j)
			continue
		}
		out := *j
		out.ops = slices.Clone(j.ops)
		for i := range out.ops {
			o := &out.ops[i]
			if o.after == 0 {
				continue
			}
			index, ok := l.done[o.after][o.key]
			if index != 0 { // others may have written before this write was taken in
				index = max(index, o.base)
			}
			o.base, o.baseRefused = index, !ok
		}
		// A writer that failed has taken the answer to its last request with it.
		again := j.attempts > 0
		out.waited, out.maybeApplied, out.unknown = out.waited || again, again, again
		j.attempts++
		return &out
	}
	return nil
}

// find returns a write that waits, or nil.
func (l *jobQueue) find(seq uint64) *job {
	if i := slices.IndexFunc(l.jobs, func(j *job) bool { return j.seq == seq }); i >= 0 {
		return l.jobs[i]
	}
	return nil
}

// finish removes a write. keys has the indexes of what it wrote; nil says that it was not applied.
func (l *jobQueue) finish(seq uint64, keys map[string]uint64) *job {
	i := slices.IndexFunc(l.jobs, func(j *job) bool { return j.seq == seq })
	if i < 0 {
		return nil
	}
	j := l.jobs[i]
	l.jobs = slices.Delete(l.jobs, i, i+1)
	l.bytes -= j.size
	if keys != nil {
		l.done[seq] = keys
	}
	for _, o := range j.ops {
		if l.latest[o.key] == seq {
			delete(l.latest, o.key)
		}
	}
	l.prune()
	return j
}

// prune forgets the indexes that no write of the queue is based on.
func (l *jobQueue) prune() {
	if len(l.jobs) == 0 {
		clear(l.done)
		return
	}
	if len(l.done) <= 2*len(l.jobs)+16 {
		return
	}
	needed := map[uint64]bool{}
	for _, j := range l.jobs {
		for _, o := range j.ops {
			needed[o.after] = true
		}
	}
	for seq := range l.done {
		if !needed[seq] {
			delete(l.done, seq)
		}
	}
}

// drop removes a write that was never sent, as if it had never joined. A write that is based on it
// is then based on what the dropped one was based on.
func (l *jobQueue) drop(j *job) {
	for _, later := range l.jobs {
		for i := range later.ops {
			if o := &later.ops[i]; o.after == j.seq {
				o.after = j.ops[slices.IndexFunc(j.ops, func(own Op) bool {
					return own.key == o.key
				})].after
			}
		}
	}
	for _, o := range j.ops {
		if l.latest[o.key] == j.seq && l.find(o.after) != nil {
			l.latest[o.key] = o.after
		}
	}
	l.finish(j.seq, nil)
}
