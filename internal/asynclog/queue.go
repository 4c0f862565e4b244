package asynclog

import (
	"sync"
	"time"
)

// Bounds of a [Queue]: what may wait to be written. 1,024 records are what a member logs in an
// hour, or in the first seconds of an outage.
const (
	maxEntries = 1024
	maxBytes   = 4 << 20
)

// entry is something to be written.
type entry interface {
	size() int // in bytes, roughly
	at() time.Time
	write()
	// note says at this entry's place that it and others were dropped.
	note(lost int, since time.Time)
}

// gap is what was dropped in one stretch. It takes the place of those entries.
type gap struct {
	entry // the first of them
	count int
}

func (*gap) size() int { return 0 }
func (g *gap) write()  { g.note(g.count, g.at()) }

// Queue is the bounded way of records and lines to where they are written. Make one with
// [NewQueue].
type Queue struct {
	maxEntries uint64
	maxBytes   int

	mu       sync.Mutex
	waiting  []entry
	bytes    int
	writing  bool   // a goroutine is at work
	dropped  int    // in all
	accepted uint64 // entries taken so far
	written  uint64
	flushes  []flush
	alike    map[kind]*alike
	// stalled is what had been written when a flush was given up last: until there is more, others
	// do not wait.
	stalled   uint64
	isStalled bool
}

type flush struct {
	upTo uint64
	done chan struct{}
}

// NewQueue returns an empty queue. It belongs to one synctest bubble, or to none.
func NewQueue() *Queue { return &Queue{maxEntries: maxEntries, maxBytes: maxBytes} }

func (q *Queue) add(e entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := q.accepted-q.written, e.size()
	if n >= q.maxEntries || n > 0 && q.bytes+size > q.maxBytes {
		q.drop(e)
	} else {
		q.push(e, size)
	}
}

func (q *Queue) push(e entry, size int) {
	q.waiting = append(q.waiting, e)
	q.accepted++
	q.bytes += size
	if !q.writing {
		q.writing = true
		go q.writeAll()
	}
}

func (q *Queue) drop(e entry) {
	q.dropped++
	if n := len(q.waiting); n > 0 {
		if last, ok := q.waiting[n-1].(*gap); ok {
			last.count++
			return
		}
	}
	q.push(&gap{e, 1}, 0)
}

// Dropped is how many entries were dropped so far.
func (q *Queue) Dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// writeAll writes until there is nothing left. Where a handler panics or ends the goroutine,
// another one goes on.
func (q *Queue) writeAll() {
	over := false
	defer func() {
		if !over {
			_ = recover()
			go q.writeAll()
		}
	}()
	for {
		e, ok := q.next()
		if !ok {
			over = true
			return
		}
		q.writeOne(e)
	}
}

// next takes what is to be written; when nothing is, it ends the work.
func (q *Queue) next() (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.waiting, q.writing = nil, false
		return nil, false
	}
	e := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return e, true
}

func (q *Queue) writeOne(e entry) {
	ok := false
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if _, lost := e.(*gap); !ok && !lost {
			q.drop(e)
		}
		q.bytes -= e.size()
		q.written++
		rest := q.flushes[:0]
		for _, f := range q.flushes {
			if f.upTo > q.written {
				rest = append(rest, f)
				continue
			}
			close(f.done)
		}
		q.flushes = rest
	}()
	e.write()
	ok = true
}

// Flush waits until all that was logged before the call is written, for limit at the most, and
// reports whether it is. While nothing at all has been written since a flush was given up, it does
// not wait again.
func (q *Queue) Flush(limit time.Duration) bool {
	q.sumUpAll()
	q.mu.Lock()
	if q.accepted == q.written {
		q.mu.Unlock()
		return true
	}
	if q.isStalled && q.stalled == q.written {
		q.mu.Unlock()
		return false
	}
	f := flush{q.accepted, make(chan struct{})}
	q.flushes = append(q.flushes, f)
	q.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-f.done:
		return true
	case <-t.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stalled, q.isStalled = q.written, true
	return false
}
