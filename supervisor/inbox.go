package supervisor

import "sync"

// message is something that happened or is asked for; the loop applies it to
// its state. A loop that is over refuses what it did not get to: then replies
// must still be given.
type message interface {
	apply(*loop)
	refuse(*loop)
}

// inbox never makes its senders wait: a child that ends, or says that it is
// ready, must not depend on when the loop looks. It holds at most a few messages
// for each child, and a request for each caller that waits.
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
	if clear(b.spare); cap(b.spare) <= mostSpare {
		b.queue = b.spare[:0]
	} else {
		b.queue = nil
	}
	b.spare = q
	return q
}

// mostSpare is what an inbox keeps for messages to come.
const mostSpare = 1024

func (b *inbox) close() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	q := b.queue
	b.queue = nil
	return q
}
