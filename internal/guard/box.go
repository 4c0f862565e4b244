//go:build unix

package guard

import (
	"encoding/gob"
	"sync"
)

// box is a queue of messages for a pipe. Nobody who puts one waits for the other end.
type box[T any] struct {
	mu    sync.Mutex
	items []T
	shut  bool
	wake  chan struct{}
}

func newBox[T any]() *box[T] { return &box[T]{wake: make(chan struct{}, 1)} }

func (b *box[T]) put(item T) { b.add(item, false) }

// last puts a message in the place of all that were not taken yet, and takes no more.
func (b *box[T]) last(item T) { b.add(item, true) }

func (b *box[T]) add(item T, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		return
	}
	if b.shut = last; last {
		b.items = nil
	}
	b.items = append(b.items, item)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *box[T]) take() (items []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, b.items = b.items, nil
	return items
}

// send sends messages until the pipe fails, or until stop is closed and all are sent.
func (b *box[T]) send(enc *gob.Encoder, stop <-chan struct{}) {
	for {
		items := b.take()
		for _, item := range items {
			if enc.Encode(item) != nil {
				return // the other process is gone, or told to go: its end says the rest
			}
		}
		if len(items) > 0 {
			continue
		}
		select {
		case <-b.wake:
		case <-stop:
			return
		}
	}
}
