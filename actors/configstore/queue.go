package configstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// queue is the writes of an outbox, in order. It has no I/O and no clock. It decides whether a
// write is taken in, what the write is based on, and which write is next.
type queue struct {
	maxJobs  int
	maxBytes int
	jobs     []*job
	bytes    int
	next     uint64 // the number of the next write
	// made are the keys of writes that were applied, until the cache shows them.
	made map[string]made
}

// made is what a write that was applied has made of a key.
type made struct {
	key uint64 // its index; 0: deleted
	at  uint64 // the index of the write
}

func newQueue(maxJobs, maxBytes int) *queue {
	return &queue{maxJobs: maxJobs, maxBytes: maxBytes, next: 1,
		made: map[string]made{}}
}

// join adds a write. It is based on what the cache shows, or on what an earlier write of this store
// has made of the key. One that is applied later becomes its base then: see finish.
func (q *queue) join(s Snapshot, now time.Time, j *job) error {
	for _, o := range j.ops {
		j.size += o.cost()
	}
	full := func() bool { return len(q.jobs) >= q.maxJobs || q.bytes+j.size > q.maxBytes }
	if full() {
		for _, old := range slices.Clone(q.jobs) {
			if old.state == notSent && old.abandoned() {
				q.remove(old)
			}
		}
	}
	if full() {
		return fmt.Errorf("%w: %d writes of %d bytes wait for Consul: try again when it answers",
			ErrFull, len(q.jobs), q.bytes)
	}
	j.number, j.taken = q.next, now
	for i := range j.ops {
		o := &j.ops[i]
		if e := s.find(o.key); e != nil {
			o.base, o.flags = e.Index, e.Flags
		}
		if own, ok := q.made[o.key]; ok && own.at > s.index {
			o.base = own.key
		} else if ok {
			delete(q.made, o.key)
		}
	}
	q.push(j)
	return nil
}

// push puts a job at the end as it is.
func (q *queue) push(j *job) {
	q.jobs = append(q.jobs, j)
	q.bytes += j.size
	q.next = max(q.next, j.number+1)
}

// head returns a copy of the first write, which counts as sent from now on; nil: there is none. Last
// is the name of the last transaction known.
func (q *queue) head(last string) *job {
	for len(q.jobs) > 0 {
		j := q.jobs[0]
		if j.state == notSent && j.abandoned() {
			q.remove(j)
			continue
		}
		if j.state == notSent {
			j.since = store.SequenceAfter(last)
		}
		out := *j
		out.ops = slices.Clone(j.ops)
		j.state = inFlight
		return &out
	}
	return nil
}

// find returns a write that waits, or nil.
func (q *queue) find(number uint64) *job {
	if i := slices.IndexFunc(q.jobs, func(j *job) bool { return j.number == number }); i >= 0 {
		return q.jobs[i]
	}
	return nil
}

func (q *queue) remove(j *job) {
	q.jobs = slices.DeleteFunc(q.jobs, func(other *job) bool { return other == j })
	q.bytes -= j.size
}

// finish removes a write. Later writes to its keys are based on what it made: keys has the indexes,
// and at is that of the write, if it is known. Nil says that it was not applied, or that nobody
// knows.
func (q *queue) finish(j *job, keys map[string]uint64, at uint64) {
	q.remove(j)
	for key, index := range keys {
		if at != 0 {
			q.made[key] = made{index, at}
		}
		for _, later := range q.jobs {
			for i := range later.ops {
				if o := &later.ops[i]; o.key != key {
					continue
				} else if o.base < index || index == 0 { // others may have written since
					o.base = index
				}
			}
		}
	}
}
