package onzk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/messages"
)

// attempts is how often a transaction is put together anew because what it was based on had
// changed.
const attempts = 8

var errChanged = errors.New("the election changes too fast: try again")

type backend struct {
	conn *Conn
	name string
	base string // path of the election's node

	// holds a token while Join, Take, Release or Leave is at work, even if the caller has gone
	turn chan struct{}
	kick chan struct{} // cap 1: something of the below has changed

	mu sync.Mutex
	me candidacy
	// floor is the last reading begun before the latest operation ended: what is older must not be
	// published.
	floor   uint64
	working bool // an operation is under way
	ops     int  // operations that have succeeded, see election.View
	// vacant is since when nobody is seen to lead, zero while somebody is; led is the token of
	// whoever was seen to lead last.
	vacant time.Time
	led    int64
}

// candidacy is what a backend knows of its own candidate.
type candidacy struct {
	election.Candidate
	session int64
	node    string // name of its node; empty: not joined, or left
	born    int64  // creation zxid of the election's node that it joined
	unsure  bool   // a create's outcome is not known
	left    bool
}

func newBackend(c *Conn, name string) *backend {
	return &backend{conn: c, name: name, base: c.cfg.Root + "/" + name, turn: make(chan struct{},
		1), kick: make(chan struct{}, 1)}
}

func (b *backend) Contact() messages.Reader[election.Contact] { return b.conn.state }

func (b *backend) path(child string) string { return b.base + "/" + child }

func (b *backend) candidacy() candidacy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.me
}

func (b *backend) update(f func(*candidacy)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.me)
}

// succeeded counts an operation for Watch; the floor is that operation's already.
func (b *backend) succeeded() {
	b.mu.Lock()
	b.ops++
	b.mu.Unlock()
	b.nudge()
}

func (b *backend) nudge() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// operate runs one operation after another. When ctx ends first, the operation goes on by itself
// and the next one waits for it: so none of them can be overtaken by its successor.
func (b *backend) operate(ctx context.Context, what string, f func() error) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s in %s: the last request is not done yet: %w", what, b.name, ctx.Err())
	}
	err := b.conn.call(ctx, func() error {
		defer func() { <-b.turn }()
		b.mu.Lock()
		b.working = true
		b.mu.Unlock()
		err := f()
		b.mu.Lock()
		b.working = false
		b.floor = b.conn.readings.Load()
		own := b.me.node
		b.mu.Unlock()
		b.conn.refresh(b.base, b.path(leaderNode), b.path(own))
		b.nudge()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s in %s: %w", what, b.name, err)
	}
	return nil
}
