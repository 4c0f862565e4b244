package supervisor

import "sync"

// message is something that happened or is asked for. The loop applies it to its state. A loop that
// is over refuses what it did not get to.
type message interface {
	apply(*loop)
	refuse(*loop)
}

// inbox never makes its senders wait: a child that ends, or says that it is ready, must not depend
// on when the loop looks. It holds at most a few messages for each child, and a request for each
// caller that waits.
type inbox struct {
	mu     sync.Mutex
	queue  []message
	spare  []message // what the loop has dealt with
	closed bool
	wake   chan struct{}
}

func (b *inbox) post(m message) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.queue = append(b.queue, m)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return true
}

// take gives what has come, until the next call.
func (b *inbox) take() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	clear(b.spare)
	b.queue, b.spare = b.spare[:0], q
	return q
}

func (b *inbox) close() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.queue
}

// request is a call of which somebody waits for the answer.
type request struct{ do, no func() }

func (m request) apply(*loop)  { m.do() }
func (m request) refuse(*loop) { m.no() }

// ask has f called by the loop. It reports false when the loop is over.
func ask[T any](l *loop, f func() T) (answer T, ok bool) {
	reply := make(chan T, 1)
	if !l.inbox.post(request{func() { reply <- f() }, func() { close(reply) }}) {
		return answer, false
	}
	answer, ok = <-reply
	return answer, ok
}

// readyMsg says that a child has called Ready.
type readyMsg struct{ r *run }

func (m readyMsg) apply(l *loop) { l.becameReady(m.r) }
func (readyMsg) refuse(*loop)    {}

// endedMsg says that a run has ended. One of a tree that has left somebody behind comes again when
// all of that has ended.
type endedMsg struct{ r *run }

func (m endedMsg) apply(l *loop) {
	if m.r.c.lingers {
		l.endedLate(m.r)
	} else {
		l.ended(m.r)
	}
}

// refuse runs when the loop is over: only what was abandoned ends so late.
func (m endedMsg) refuse(l *loop) {
	l.announceLate(m.r)
	m.r.c.done.set()
	l.removals.ring()
}

// abandonMsg has the stacks of runs that did not stop in time.
type abandonMsg struct{ stacks map[*run]string }

func (m abandonMsg) apply(l *loop) {
	for r, stack := range m.stacks {
		if !r.gone.isSet() { // else its end is in the inbox, or has been seen
			l.abandon(r, stack)
		}
	}
}
func (abandonMsg) refuse(*loop) {}

// abortMsg says that the deadline of the whole tree is over.
type abortMsg struct{}

func (abortMsg) apply(l *loop) { l.abort() }
func (abortMsg) refuse(*loop)  {}
