package onconsul

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// backend is one participation in one election.
type backend struct {
	conn *Conn
	name string
	keys keys
	kick chan struct{} // cap 1: what this participant did has to be seen
	stir chan struct{} // cap 1: the poll need not pause any more

	mu      sync.Mutex
	self    election.Candidate
	session string // that it joined under
	record  uint64 // ModifyIndex of its own record: what a late Take is refused by
	round   int
	anchor  uint64 // CreateIndex, when it joined
	token   uint64 // of its leadership
	// ModifyIndex of the term that was last seen with nobody leading any more, see sawTerm
	term    uint64
	free    time.Time // not before then may that term be followed
	ops     int       // see election.View
	maybe   string    // the session under which it may have joined
	unsure  bool      // a request that makes its record may still be under way
	leaving bool      // a request that gives its leadership up may still be under way
}

func newBackend(c *Conn, name string) *backend {
	return &backend{conn: c, name: name, keys: keysOf(c.cfg.Prefix, name), kick: make(chan struct{},
		1), stir: make(chan struct{}, 1)}
}

func (b *backend) Contact() messages.Reader[election.Contact] { return b.conn.Contact() }

// me is what the backend knows of its own participation.
type me struct {
	election.Candidate
	session        string
	record, anchor uint64
	round          int
	token, term    uint64
	free           time.Time
	ops            int
	unsure         bool
	leaving        bool
}

func (b *backend) me() me {
	b.mu.Lock()
	defer b.mu.Unlock()
	return me{b.self, b.session, b.record, b.anchor, b.round, b.token, b.term, b.free, b.ops,
		b.unsure, b.leaving}
}

// did notes the outcome of an op and has the watch look at it.
func (b *backend) did(f func()) {
	b.mu.Lock()
	f()
	b.ops++
	b.mu.Unlock()
	for _, c := range []chan struct{}{b.kick, b.stir} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// orElse returns what the rule says, or the other when that rule is switched off.
func orElse(rule string, op, other store.Op) store.Op {
	if mutations.Broken(rule) {
		return other
	}
	return op
}

// owns tells whether the leader's key is this candidate's.
func (m me) owns(leader store.Entry) bool {
	if m.session == "" || leader.Session != m.session {
		return false
	}
	if m.token != 0 && leader.CreateIndex == m.token {
		return true // whatever a stranger wrote there
	}
	r, ok := parseRecord(leader)
	return ok && r.ID == m.ID
}

// over says that the election is, as an error; nil when it is not.
func (s snapshot) over() error {
	switch {
	case s.ended == nil:
		return nil
	case s.ended.Deleted:
		return election.ErrDeleted
	}
	return election.ErrEnded
}

// seen is an election at one point of Consul's log, with what there is of one candidate.
type seen struct {
	snapshot
	anchor store.Entry
	own    store.Entry // its record
	lane   store.Entry // that of the session's joins
}

// look reads state/ consistently and, unless they are empty, the record of the candidate and the
// lane of the session.
func (b *backend) look(ctx context.Context, id, session string) (s seen, err error) {
	ops := []store.Op{
		store.GetOrEmpty(b.keys.anchor()), store.GetOrEmpty(b.keys.leader()),
		store.GetOrEmpty(b.keys.handover()), store.GetOrEmpty(b.keys.ended()),
		store.GetOrEmpty(b.keys.term()),
	}
	if id != "" {
		ops = append(ops, store.GetOrEmpty(b.keys.candidate(id)))
	}
	if session != "" {
		ops = append(ops, store.GetOrEmpty(b.keys.lane(session)))
	}
	r, err := b.conn.store.ReadTxn(ctx, ops...)
	if err != nil {
		return s, b.failed(err)
	}
	s.snapshot = b.keys.parse(r.Entries, 0)
	s.anchor, _ = r.Entry(b.keys.anchor())
	s.own, _ = r.Entry(b.keys.candidate(id))
	s.lane, _ = r.Entry(b.keys.lane(session))
	return s, nil
}

// once is what a write that makes a candidate's record carries, so that of all copies of it Consul
// applies one at the most, and none after Leave: the session's lane as it was seen, and its change.
// Nobody watches that key; it goes with the session.
func (b *backend) once(s seen, session string) []store.Op {
	key := b.keys.lane(session)
	as := store.CheckNotExists(key)
	if s.lane.CreateIndex != 0 {
		as = store.CheckIndex(key, s.lane.ModifyIndex)
	}
	return []store.Op{as, store.Lock(key, []byte(rand.Text()), 0, session)}
}

// exists returns the election as it is, which is made if need be. A late copy of that makes one
// that nobody is in.
func (b *backend) exists(ctx context.Context, id, session string) (s seen, err error) {
	for range 2 {
		s, err = b.look(ctx, id, session)
		if err != nil || s.anchor.CreateIndex != 0 {
			return s, err
		}
		_, err = b.conn.store.Txn(ctx, store.Create(b.keys.anchor(), encode(time.Now())))
		if err != nil && !errors.Is(err, store.ErrRefused) {
			return s, b.failed(err)
		}
	}
	return s, fmt.Errorf("%s changes too fast: try again", b.name)
}

// failed turns a store's error into one that the core knows.
func (b *backend) failed(err error) error {
	if errors.Is(err, store.ErrSessionGone) {
		return fmt.Errorf("%w: %w", election.ErrSessionLost, err)
	}
	return err
}

func (b *backend) Join(ctx context.Context, c election.Candidate) (string, error) {
	session, err := b.conn.session(ctx)
	if err != nil {
		return "", err
	}
	done, err := b.conn.inLane(ctx, b.keys.root)
	if err != nil {
		return "", err
	}
	defer done()
	s, err := b.exists(ctx, c.ID, session)
	if err != nil {
		return "", err
	}
	if err := s.over(); err != nil {
		return "", err
	}
	if s.own.CreateIndex != 0 && s.own.Session == session { // the reply to an earlier try was lost
		b.joined(c, session, s.own.ModifyIndex, s.anchor.CreateIndex)
		return session, nil
	}
	// All candidates join the one election that they saw.
	key := b.keys.candidate(c.ID)
	r, err := b.conn.store.Txn(ctx, append(b.once(s, session), store.CheckIndex(b.keys.anchor(),
		s.anchor.ModifyIndex),
		store.CheckNotExists(b.keys.ended()), store.Lock(key, encode(record{Candidate: c}), 0,
			session))...)
	if err != nil {
		b.doubt(c, session, err)
		return "", b.failed(err)
	}
	e, _ := r.Entry(key)
	b.joined(c, session, e.ModifyIndex, s.anchor.CreateIndex)
	return session, nil
}

func (b *backend) joined(c election.Candidate, session string, record, anchor uint64) {
	b.did(func() { b.self, b.session, b.record, b.anchor = c, session, record, anchor })
}

// doubt notes that the record of c may yet be made, by a request whose outcome is unknown.
func (b *backend) doubt(c election.Candidate, session string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.self, b.unsure = c, b.unsure || store.OutcomeUnknown(err)
	if b.session == "" {
		b.maybe = session
	}
}

func (b *backend) Take(ctx context.Context) (uint64, time.Duration, error) {
	m := b.me()
	if left := time.Until(m.free); left > 0 {
		return 0, left, nil
	}
	leader := b.keys.leader()
	value := encode(record{Candidate: m.Candidate})
	led := tenure{ID: m.ID, Name: m.Name, LockDelay: b.conn.cfg.LockDelay}
	if mutations.Broken("lock-delay-not-in-term") {
		led.LockDelay = 0
	}
	term := encode(led)
	// Consul looks at the lock-delay before an entry is applied, so that a request that is past it
	// is held up no more: it could take what a leader of a moment ago has lost with its session.
	// The term lets nobody in who did not know of that leader.
	r, err := b.conn.store.Txn(ctx,
		orElse("take-unchecked", store.CheckIndex(b.keys.candidate(m.ID), m.record),
			store.GetOrEmpty(leader)),
		store.CheckNotExists(b.keys.ended()),
		orElse("taken-while-held", store.CheckNotExists(leader), store.GetOrEmpty(leader)),
		orElse("term-unchecked", store.CAS(b.keys.term(), term, 0, m.term), store.Set(b.keys.term(),
			term, 0)),
		store.Lock(leader, value, 0, m.session), store.Delete(b.keys.handover()))
	if err == nil {
		e, _ := r.Entry(leader)
		b.took(e.ModifyIndex)
		return e.ModifyIndex, 0, nil
	}
	refused, ok := errors.AsType[*store.RefusedError](err)
	if !ok {
		return 0, 0, b.failed(err)
	}
	if refused.LockDelayed() {
		return 0, min(max(b.conn.cfg.LockDelay/4, 50*time.Millisecond), time.Second), nil
	}
	// Why it was refused, and what can be done about it.
	s, err := b.look(ctx, m.ID, m.session)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case s.over() != nil && !m.owns(s.leader):
		return 0, 0, s.over()
	case m.owns(s.leader) && m.leaving:
		// The release that is still on its way would take the leadership from a duty that has
		// begun: it is done now. What a view says is not older for it, so it is no op.
		record, err := b.release(ctx, m)
		if err != nil {
			return 0, 0, err
		}
		b.mu.Lock()
		b.gaveUp(record)
		b.mu.Unlock()
		return 0, 50 * time.Millisecond, nil
	case m.owns(s.leader):
		b.took(s.leader.CreateIndex)
		return s.leader.CreateIndex, 0, nil
	case s.own.CreateIndex == 0 || s.own.Session != m.session:
		return 0, 0, b.repair(ctx, m, s)
	case s.own.ModifyIndex != m.record, s.vacant() && s.term != m.term:
		// a stranger wrote to it; or somebody has led and is gone
		b.mu.Lock()
		b.record = s.own.ModifyIndex
		b.sawTerm(s.snapshot)
		b.mu.Unlock()
		return 0, 50 * time.Millisecond, nil
	case s.leader.CreateIndex != 0 && s.vacant():
		// A key without a holder is a stranger's. A new one in its place has a token above all
		// earlier ones.
		_, err := b.conn.store.Txn(ctx, store.CheckIndex(leader, s.leader.ModifyIndex),
			store.Delete(leader))
		if err != nil && !errors.Is(err, store.ErrRefused) {
			return 0, 0, b.failed(err)
		}
		return 0, 50 * time.Millisecond, nil
	}
	return 0, 0, nil
}

// sawTerm notes, under b.mu, the term that a Take may follow: one whose leader is seen to have
// gone, so that its lock-delay runs already, and from when on: a leader that did not give the
// leadership up may not know. With the term of a leader who leads still, a Take that Consul has let
// past the lock-delay could be applied just after that leader's session was ended.
func (b *backend) sawTerm(s snapshot) {
	switch {
	case !s.vacant():
		b.free = time.Time{}
	case s.term != b.term || b.free.IsZero():
		b.term, b.free = s.term, time.Now().Add(min(s.tenure.LockDelay, store.MaxLockDelay))
		if mutations.Broken("lock-delay-not-waited-for") {
			b.free = time.Now()
		}
	}
}

// repair makes a candidate's record anew that a stranger deleted.
func (b *backend) repair(ctx context.Context, m me, s seen) error {
	key := b.keys.candidate(m.ID)
	r, err := b.conn.store.Txn(ctx, append(b.once(s, m.session), store.CheckIndex(b.keys.anchor(),
		s.anchor.ModifyIndex),
		store.CheckNotExists(b.keys.ended()), store.Lock(key, encode(record{m.Candidate, m.round}),
			0, m.session))...)
	if err != nil {
		b.doubt(m.Candidate, m.session, err)
		return b.failed(err)
	}
	e, _ := r.Entry(key)
	b.mu.Lock()
	b.record = e.ModifyIndex
	b.mu.Unlock()
	return errors.New("this candidate's record was gone; it was made anew")
}

func (b *backend) took(token uint64) {
	b.conn.leads(b, true)
	b.did(func() { b.token = token })
}

func (b *backend) Release(ctx context.Context) error {
	record, err := b.release(ctx, b.me())
	if err != nil {
		return err
	}
	b.conn.leads(b, false)
	b.did(func() { b.gaveUp(record) })
	return nil
}

// gaveUp notes, under b.mu, what release has done.
func (b *backend) gaveUp(record uint64) {
	b.record, b.token, b.round, b.leaving = record, 0, b.round+1, false
}

// release gives the leadership up if it is this candidate's, and returns the index of the
// candidate's record.
func (b *backend) release(ctx context.Context, m me) (index uint64, _ error) {
	s, err := b.look(ctx, m.ID, "")
	if err != nil || !m.owns(s.leader) {
		return m.record, err
	}
	b.mu.Lock()
	b.leaving = true
	b.mu.Unlock()
	// The candidate's record becomes another one: no Take that is still on its way can bring the
	// leadership back.
	key := b.keys.candidate(m.ID)
	r, err := b.conn.store.Txn(ctx,
		orElse("released-unchecked", store.CheckIndex(b.keys.leader(), s.leader.ModifyIndex),
			store.GetOrEmpty(b.keys.leader())),
		store.Delete(b.keys.leader()),
		orElse("released-in-any-term", b.keys.givenUp(s.snapshot, m.ID), store.Set(b.keys.term(),
			encode(tenure{ID: m.ID}), 0)),
		store.Lock(key, encode(record{m.Candidate, m.round + 1}), 0, m.session))
	if err != nil {
		return 0, b.failed(err)
	}
	e, _ := r.Entry(key)
	return e.ModifyIndex, nil
}

func (b *backend) Leave(ctx context.Context) error {
	m := b.me()
	if m.session == "" {
		m.session = b.maybe
	}
	call, cancel := context.WithTimeout(ctx, b.conn.cfg.TTL/3)
	defer cancel()
	err := b.leave(call, m)
	b.mu.Lock()
	b.token = 0
	b.mu.Unlock()
	if err == nil {
		b.conn.leads(b, false)
		return nil
	}
	// Its session is shared and lives on: nobody else would remove the record.
	b.conn.later(func(ctx context.Context) error {
		if err := b.leave(ctx, m); err != nil {
			return err
		}
		b.conn.leads(b, false)
		return nil
	})
	return fmt.Errorf("%w: %w", election.ErrPending, err)
}

// leaveTries is how often leaving is tried anew at once because the leadership has changed hands
// meanwhile.
const leaveTries = 8

func (b *backend) leave(ctx context.Context, m me) (err error) {
	for range leaveTries {
		if !b.conn.lives(m.session) {
			return nil // it went with the session
		}
		var s seen
		if s, err = b.look(ctx, m.ID, m.session); err != nil {
			return err
		}
		ops := b.departure(m, s)
		if len(ops) == 0 {
			return nil
		}
		if _, err = b.conn.store.Txn(ctx, ops...); !errors.Is(err, store.ErrRefused) {
			return err
		}
	}
	return err
}

// departure is what removes all that there is of this candidate.
func (b *backend) departure(m me, s seen) (ops []store.Op) {
	if m.unsure {
		// With the lane changed, a Join that is still on its way will be refused: nobody would
		// remove what it makes.
		ops = append(ops, b.once(s, m.session)...)
	}
	if s.own.CreateIndex != 0 && !m.owns(s.leader) {
		// A Take that is late may have won since the look, and nobody else would remove what it
		// made. Without the candidate's record no other wins.
		ops = append(ops, b.keys.sameTerm(s.snapshot))
	}
	if m.owns(s.leader) || mutations.Broken("left-for-another") {
		ops = append(ops, store.CheckIndex(b.keys.leader(), s.leader.ModifyIndex),
			store.Delete(b.keys.leader()), b.keys.givenUp(s.snapshot, m.ID))
	}
	if s.own.CreateIndex != 0 {
		ops = append(ops, store.CheckIndex(b.keys.candidate(m.ID), s.own.ModifyIndex),
			store.Delete(b.keys.candidate(m.ID)))
	}
	return ops
}
