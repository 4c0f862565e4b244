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

func (b *inbox) take() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue = nil
	return q
}

func (b *inbox) close() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	q := b.queue
	b.queue = nil
	return q
}
