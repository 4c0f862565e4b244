package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
)

// removeLimit is how long the end of an item's work waits for its payload's file to go.
const removeLimit = time.Second

// payloadFiles writes and removes the files of payloads. Their disk may hang, and the item is to be
// given up all the same: so what has begun goes on without anybody who waits for it. Of one file
// everything happens in the order in which it was asked for: what hung does not undo later what was
// written since.
type payloadFiles struct {
	write  func(file string, item actors.Item) error
	remove func(file string) error

	mu   sync.Mutex
	last map[string]chan struct{} // by file, of what was asked for last; closed when it is over
}

func newPayloadFiles() *payloadFiles {
	return &payloadFiles{write: writePayload, remove: os.Remove, last: map[string]chan struct{}{}}
}

// put writes a file, or gives up when ctx ends.
func (p *payloadFiles) put(ctx context.Context, file string, item actors.Item) error {
	err := p.inTurn(ctx, file, func() error {
		if ctx.Err() != nil { // given up while it was waiting for its turn
			return ctx.Err()
		}
		return p.write(file, item)
	})
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("the file for its payload is not written yet: %w", context.Cause(ctx))
	}
	return err
}

// drop removes a file, and waits for that no longer than removeLimit.
func (p *payloadFiles) drop(file string) {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	// What is left goes with the host's next start, or is written over.
	_ = p.inTurn(ctx, file, func() error { return p.remove(file) })
}

// inTurn does what is to be done to a file after all that was asked for before.
func (p *payloadFiles) inTurn(ctx context.Context, file string, do func() error) error {
	over := make(chan struct{})
	p.mu.Lock()
	before := p.last[file]
	p.last[file] = over
	p.mu.Unlock()
	_, err := reading(ctx, func() (struct{}, error) {
		defer p.end(file, over)
		if before != nil {
			<-before
		}
		return struct{}{}, do()
	})
	return err
}

func (p *payloadFiles) end(file string, over chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[file] == over {
		delete(p.last, file)
	}
	close(over)
}
