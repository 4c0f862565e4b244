package supervisor

import "sync/atomic"

// latch is a channel that is closed once. It is made when someone waits for it: most never are.
type latch struct{ c atomic.Pointer[chan struct{}] }

// shut stands for the channel of a latch that is set.
var shut = func() *chan struct{} {
	c := make(chan struct{})
	close(c)
	return &c
}()

func (l *latch) wait() <-chan struct{} {
	for {
		if c := l.c.Load(); c != nil {
			return *c
		}
		c := make(chan struct{})
		if l.c.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

func (l *latch) set() {
	if c := l.c.Swap(shut); c != nil && c != shut {
		close(*c)
	}
}

func (l *latch) isSet() bool { return l.c.Load() == shut }
