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

// attempts bounds how often a transaction is built again because a node that it depends on has
// changed.
const attempts = 8

var errChanged = errors.New("the election changes too fast: try again")

type backend struct {
	conn *Conn
	name string
	base string // path of the election's node

	// operating is full while Join, Take, Release or Leave is at work, even if the caller has gone.
	operating chan struct{}
	wakeWatch chan struct{} // cap 1: a field below has changed
	leads     bool          // took the leadership and did not give it up; under Conn.mu

	mu sync.Mutex
	me candidacy
	// minReading is the number of the newest reading when the last operation ended. Readings up to
	// that number must not be published.
	minReading uint64
	working    bool // an operation is under way
	ops        int  // operations that have succeeded, see election.View
	// vacantSince is when the leadership was first seen free; zero: somebody leads. lastToken is
	// the token of the leader that was seen last.
	vacantSince time.Time
	lastToken   int64
	// prepared is for the next take; nil: that reads what it needs.
	prepared *preparation
	// delayedUntil is until when a lock-delay lasts, as of the last look at the term; zero: none is
	// known.
	delayedUntil time.Time
}

// candidacy is what a backend knows of its own candidate.
type candidacy struct {
	election.Candidate
	session       int64
	node          string // name of its node; empty: not joined, or left
	incarnation   int64  // creation zxid of the election's node that it joined
	createUnknown bool   // a create's outcome is not known
	left          bool
	madeWay       bool  // because of a denial: it stands behind all others until it has led
	takeUnknown   bool  // a take's outcome is not known
	taken         bool  // it has taken the leadership, and not given it up
	termVersion   int32 // of the term that its take has written
	token         int64 // of its last leadership: the creation zxid of the leader's node; 0: none
}

func newBackend(c *Conn, name string) *backend {
	return &backend{conn: c, name: name, base: c.cfg.Root + "/" + name,
		operating: make(chan struct{},
			1), wakeWatch: make(chan struct{}, 1)}
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

// succeeded counts an operation for Watch. operate has set minReading already.
func (b *backend) succeeded() {
	b.mu.Lock()
	b.ops++
	b.mu.Unlock()
	b.wake()
}

func (b *backend) wake() {
	select {
	case b.wakeWatch <- struct{}{}:
	default:
	}
}

// operate runs one operation at a time. If ctx ends first, the operation goes on in the background,
// and the next one waits for it. So no operation overtakes another.
func (b *backend) operate(ctx context.Context, what string, f func() error) error {
	if err := b.conn.awaitCredentials(ctx); err != nil {
		return fmt.Errorf("%s in %s: %w", what, b.name, err)
	}
	select {
	case b.operating <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s in %s: the last request is not done yet: %w", what, b.name, ctx.Err())
	}
	err := b.conn.callAnyway(ctx, func() error {
		defer func() { <-b.operating }()
		b.mu.Lock()
		b.working = true
		b.mu.Unlock()
		defer func() { // after a panic, too
			b.mu.Lock()
			b.working = false
			b.minReading = b.conn.readings.Load()
			own := b.me.node
			b.mu.Unlock()
			b.conn.refresh(b.base, b.path(leaderNode), b.path(own))
			b.wake()
		}()
		return f()
	})
	if err != nil {
		return fmt.Errorf("%s in %s: %w", what, b.name, err)
	}
	return nil
}
