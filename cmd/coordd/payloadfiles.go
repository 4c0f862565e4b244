package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// writtenPayload is the file of one run of a command. A process that stood still for longer than
// its lease may find that another one with its id runs the item here by now, and has the file. Only
// who has the file's turn looks at the rest of it.
type writtenPayload struct {
	file    string
	written bool
	as      fs.FileInfo // as this process wrote it last, if it could be looked at
}

// ours tells whether nobody else has written the file since.
func (w *writtenPayload) ours() bool {
	now, err := os.Lstat(w.file)
	return errors.Is(err, fs.ErrNotExist) || err == nil && w.as != nil && os.SameFile(w.as, now) &&
		now.ModTime().Equal(w.as.ModTime())
}

// firstLimit is how long a command waits for its payload's file: not too short for thousands that
// begin at once on a slow disk.
const firstLimit = time.Minute

// first writes the file before its command begins. A disk that hangs is the host's fault: the item
// may run elsewhere, and is not shown as running.
func (p *payloadFiles) first(ctx context.Context, w *writtenPayload, item actors.Item) error {
	limit, cancel := context.WithTimeout(ctx, firstLimit)
	defer cancel()
	// Whoever gives up while others have the file's turn leaves nothing behind that waits for it.
	p.mu.Lock()
	before := p.last[w.file]
	p.mu.Unlock()
	if before != nil {
		select {
		case <-before:
		case <-limit.Done():
		}
	}
	err := limit.Err()
	if err == nil {
		if err = p.put(limit, w, item); err != nil && limit.Err() != nil {
			p.drop(w) // it may be written yet
		}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("the file for its payload is not written yet: %w", context.Cause(ctx))
	case limit.Err() != nil:
		return notWritten(item, fmt.Errorf("its disk has hung for %v", firstLimit))
	}
	return err
}

// put writes a file, or gives up when ctx ends.
func (p *payloadFiles) put(ctx context.Context, w *writtenPayload, item actors.Item) error {
	err := p.inTurn(ctx, w.file, func() error {
		switch {
		case ctx.Err() != nil: // given up while it was waiting for its turn
			return ctx.Err()
		case w.written && !w.ours():
			return notWritten(item, errors.New("another process has written it since"))
		}
		err := p.write(w.file, item)
		if err == nil {
			w.written = true
			w.as, _ = os.Lstat(w.file)
		}
		return err
	})
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("the file for its payload is not written yet: %w", context.Cause(ctx))
	}
	return err
}

// drop removes a file, and waits for that no longer than removeLimit.
func (p *payloadFiles) drop(w *writtenPayload) {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	// What is left goes with the host's next start, or is written over.
	_ = p.inTurn(ctx, w.file, func() error {
		if !w.written || !w.ours() {
			return nil
		}
		return p.remove(w.file)
	})
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
