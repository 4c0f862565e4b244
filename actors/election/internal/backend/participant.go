package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/messages"
)

// Settings of a participant.
type Settings struct {
	Name      string // of the election
	LockDelay func() time.Duration
	HoldBack  time.Duration
	Logger    *slog.Logger
}

// Participant is an election.Backend over a Store.
type Participant struct {
	store Store
	crew  *Crew
	Settings
	wake chan struct{} // cap 1: an operation has succeeded

	mu          sync.Mutex
	self        election.Candidate
	session     string // of its candidacy; empty: not joined
	tried       string // the session of its last attempt to join
	joinUnknown bool   // a request that makes its record may be under way
	incarnation uint64 // of the election that it joined
	token       uint64 // of its leadership; 0: none
	ops         int    // see election.View
	leaving     bool
	vacancy     vacancy
}

// New returns a participant of the election that the store has.
func New(s Store, crew *Crew, cfg Settings) *Participant {
	return &Participant{store: s, crew: crew, Settings: cfg, wake: make(chan struct{}, 1)}
}

// known is what a participant knows of its own candidacy.
type known struct {
	self           election.Candidate
	session, tried string
	joinUnknown    bool
	incarnation    uint64
	token          uint64
	ops            int
	leaving        bool
}

func (p *Participant) known() known {
	p.mu.Lock()
	defer p.mu.Unlock()
	return known{p.self, p.session, p.tried, p.joinUnknown, p.incarnation, p.token, p.ops,
		p.leaving}
}

// owns tells whether the leader's record is this candidate's. Several candidates may share a
// session, so both are compared. One that it has made stays its own, whatever is written there.
func (k known) owns(r Reading) bool {
	return k.session != "" && r.Session == k.session &&
		(r.Leader.ID == k.self.ID || k.token != 0 && r.Token == k.token)
}

// succeeded records the outcome of an operation by f, counts it, and wakes the watch.
func (p *Participant) succeeded(f func()) {
	p.mu.Lock()
	f()
	p.ops++
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Contact is the state of the connection.
func (p *Participant) Contact() messages.Reader[election.Contact] { return p.store.Contact() }

// tries is how often a change is made again at once that was refused.
const tries = 8

// again calls f until it is not refused any more.
func (p *Participant) again(ctx context.Context, f func() error) (err error) {
	for n := range tries {
		if err = f(); !errors.Is(err, ErrChanged) {
			return err
		}
		if !pause(ctx, time.Duration(n)*10*time.Millisecond) {
			break
		}
	}
	return err
}

// Join makes the candidate's record. That it was made is only known from reading it.
func (p *Participant) Join(ctx context.Context, c election.Candidate) (string, error) {
	session, err := p.store.Session(ctx)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	p.self, p.tried = c, session
	p.mu.Unlock()
	fit := false
	err = p.again(ctx, func() error {
		r, err := p.store.Read(ctx, c.ID)
		switch {
		case err != nil:
			return err
		case r.Incarnation == 0:
			if err := p.store.Create(ctx); err != nil {
				return err
			}
			return ErrChanged
		case r.Over() != nil:
			return r.Over()
		case r.Owner == session:
			p.succeeded(func() { p.session, p.incarnation = session, r.Incarnation })
			return nil
		case r.Owner != "":
			return fmt.Errorf("%w: its record belongs to an earlier one", election.ErrSessionLost)
		}
		if !fit {
			if err := p.store.Fit(ctx, c); err != nil {
				return err
			}
			fit = true
		}
		_, err = p.store.Commit(ctx,
			Change{From: r, Record: Make, Self: c, Session: session})
		if err != nil && !errors.Is(err, ErrChanged) {
			p.mu.Lock()
			p.joinUnknown = true
			p.mu.Unlock()
			return err
		}
		return ErrChanged // the next reading tells
	})
	if err != nil {
		return "", fmt.Errorf("join %s: %w", p.Name, err)
	}
	return session, nil
}

// Take takes the leadership if it is free, or finds out that this candidate has it. A change that
// is refused may have been made already: a network delivers some requests twice. So it reads again.
func (p *Participant) Take(ctx context.Context) (token uint64, retry time.Duration, err error) {
	err = p.again(ctx, func() (err error) {
		token, retry, err = p.take(ctx)
		return err
	})
	if errors.Is(err, ErrChanged) {
		return 0, 50 * time.Millisecond, nil
	}
	return token, retry, err
}

func (p *Participant) take(ctx context.Context) (token uint64, retry time.Duration, err error) {
	k := p.known()
	r, err := p.store.Read(ctx, k.self.ID)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("lead %s: %w", p.Name, err)
	case k.owns(r):
		// An earlier release may be under way. It is refused in the state that is written now.
		change := Change{From: r, State: r.write(func(*State) {}), Self: k.self,
			Session: k.session}
		return p.took(ctx, change, r.Token)
	case r.Incarnation == 0 || r.Incarnation != k.incarnation:
		return 0, 0, election.ErrDeleted
	case r.Over() != nil:
		return 0, 0, r.Over()
	case r.Owner != k.session:
		return 0, 0, fmt.Errorf("lead %s: %w: this candidate's record is gone", p.Name,
			election.ErrNoCandidate)
	case !r.Vacant():
		return 0, 0, nil
	}
	if left := time.Until(p.freeFrom(r)); left > 0 {
		return 0, left, nil
	}
	return p.took(ctx, Change{From: r, State: r.write(func(s *State) {
		s.LockDelay, s.Leader, s.HandOver = p.LockDelay(), k.self.Name, nil
	}), Leader: Make, Record: Need, Self: k.self, Session: k.session}, 0)
}

// took commits the change of a take. has is the token that the candidate leads with already.
func (p *Participant) took(ctx context.Context, c Change, has uint64) (token uint64,
	retry time.Duration, err error) {
	token, err = p.store.Commit(ctx, c)
	switch {
	case errors.Is(err, ErrLockDelay):
		return 0, min(max(p.LockDelay()/4, 50*time.Millisecond), time.Second), nil
	case err != nil:
		return 0, 0, fmt.Errorf("lead %s: %w", p.Name, err)
	case has != 0:
		token = has
	}
	p.crew.leads(p, true)
	p.succeeded(func() { p.token = token })
	return token, 0, nil
}

// freeFrom returns from when on the leadership may be taken, as of a reading.
func (p *Participant) freeFrom(r Reading) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.vacancy.see(r, time.Now())
}

// vacancy is a time in which nobody leads.
type vacancy struct {
	incarnation, version uint64    // of the state in which the leadership was seen free
	free                 time.Time // from then on it may be taken; zero: somebody leads
}

// see takes in a reading, and returns from when on the leadership may be taken. A leader that did
// not give it up may not know yet that it has lost it. So its lock-delay is waited for, from when
// the leadership was first seen free in that leader's state.
func (v *vacancy) see(r Reading, now time.Time) time.Time {
	switch {
	case !r.Vacant():
		v.free = time.Time{}
	case v.free.IsZero() || r.Version != v.version || r.Incarnation != v.incarnation:
		v.incarnation, v.version = r.Incarnation, r.Version
		v.free = now.Add(min(max(r.State.LockDelay, 0), MaxLockDelay))
	}
	return v.free
}

// MaxLockDelay bounds every wait for a leader that was lost.
const MaxLockDelay = time.Hour

// GiveUp is the change by which the leader gives the leadership up.
func GiveUp(r Reading) Change {
	return Change{From: r, State: r.write(func(s *State) { s.LockDelay = 0 }), Leader: Drop}
}

// Release gives the leadership up. The candidate stays one.
func (p *Participant) Release(ctx context.Context) error {
	k := p.known()
	err := p.again(ctx, func() error {
		r, err := p.store.Read(ctx, "")
		if err != nil || !k.owns(r) {
			return err
		}
		_, err = p.store.Commit(ctx, GiveUp(r))
		return err
	})
	if err != nil {
		return fmt.Errorf("give %s up: %w", p.Name, err)
	}
	p.crew.leads(p, false)
	p.succeeded(func() { p.token = 0 })
	return nil
}

// Leave ends the candidacy. What fails is tried again beside, for as long as the session lives: it
// is shared, so nothing else would remove the records.
func (p *Participant) Leave(ctx context.Context) error {
	p.mu.Lock()
	p.leaving = true
	p.mu.Unlock()
	soon, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	err := p.leave(soon)
	if err != nil {
		p.crew.later(p)
		return fmt.Errorf("%w: leave %s: %w", election.ErrPending, p.Name, err)
	}
	return nil
}

// leavePatience is how long a candidate that leaves waits for that.
const leavePatience = 3 * time.Second

func (p *Participant) leave(ctx context.Context) error {
	k := p.known()
	if k.session == "" {
		k.session = k.tried
	}
	err := p.again(ctx, func() error {
		if !p.store.Lives(k.session) {
			return nil // its records have gone with the session
		}
		r, err := p.store.Read(ctx, k.self.ID)
		if err != nil {
			return err
		}
		c := Change{From: r}
		if k.owns(r) {
			c = GiveUp(r)
		}
		c.Self, c.Session, c.Seal = k.self, k.session, k.joinUnknown
		if r.Owner == k.session {
			c.Record = Drop
		}
		if c.Leader == Leave && c.Record == Leave && !c.Seal {
			return nil
		}
		_, err = p.store.Commit(ctx, c)
		return err
	})
	if err == nil {
		p.crew.leads(p, false)
	}
	return err
}

// pause waits for d or the end of ctx, and tells whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
