package onconsul

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// backend is one participant of one election.
type backend struct {
	conn      *Conn
	name      string
	keys      keys
	wakeWatch chan struct{} // cap 1: the watch has to read state/ now
	wakePoll  chan struct{} // cap 1: the poll has to go on now

	mu          sync.Mutex
	self        election.Candidate
	session     string // of its candidacy; empty: not joined
	values      values // that it will write
	record      uint64 // ModifyIndex of its candidate record; a late Take is refused by it
	round       int    // how often it has released; see record.Round
	incarnation uint64 // CreateIndex of the election that it joined
	token       uint64 // of its leadership; 0: it does not lead
	// term is the ModifyIndex of the term that a Take may follow; see noteTerm.
	term               uint64
	takeFrom           time.Time // a Take may not follow that term earlier
	ops                int       // see election.View
	unknownJoinSession string    // the session of a Join of unknown outcome
	joinUnknown        bool      // a request that creates its record may still be under way
	releasing          bool      // a request that gives its leadership up may still be under way
	repaired           int       // how often its record was made anew
	leaving            bool      // Leave was called: nothing that is seen from now on matters
}

func newBackend(c *Conn, name string) *backend {
	return &backend{conn: c, name: name, keys: keysOf(c.cfg.Prefix, name),
		wakeWatch: make(chan struct{}, 1), wakePoll: make(chan struct{}, 1)}
}

func (b *backend) Contact() messages.Reader[election.Contact] { return b.conn.Contact() }

// values are what a candidate writes when it takes the leadership and gives it up. They are made
// when it joins: whoever waits for the one or the other waits for a write of each side, and for no
// encoding.
type values struct{ leader, term, released []byte }

func valuesOf(c election.Candidate, lockDelay time.Duration) values {
	return values{
		leader:   encode(record{Candidate: c}),
		term:     encode(termRecord{ID: c.ID, Name: c.Name, LockDelay: lockDelay}),
		released: releasedBy(c.ID),
	}
}

// candidacy is a copy of what the backend knows of its own candidacy.
type candidacy struct {
	election.Candidate
	session             string
	values              values
	record, incarnation uint64
	round               int
	token, term         uint64
	takeFrom            time.Time
	ops                 int
	joinUnknown         bool
	releasing           bool
	repaired            int
	leaving             bool
}

func (b *backend) candidacy() candidacy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return candidacy{b.self, b.session, b.values, b.record, b.incarnation, b.round, b.token, b.term,
		b.takeFrom, b.ops, b.joinUnknown, b.releasing, b.repaired, b.leaving}
}

// succeeded records the outcome of an operation by f, counts it, and wakes the watch.
func (b *backend) succeeded(f func()) {
	b.mu.Lock()
	f()
	b.ops++
	b.mu.Unlock()
	for _, c := range []chan struct{}{b.wakeWatch, b.wakePoll} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// owns tells whether the leader's key belongs to this candidate.
func (m candidacy) owns(leader store.Entry) bool {
	if m.session == "" || leader.Session != m.session {
		return false
	}
	if m.token != 0 && leader.CreateIndex == m.token {
		return true // a stranger may have written to it since
	}
	r, ok := parseRecord(leader)
	return ok && r.ID == m.ID
}

// endedError returns ErrEnded or ErrDeleted if the election has ended, else nil.
func (s snapshot) endedError() error {
	switch {
	case s.ended == nil:
		return nil
	case s.ended.Deleted:
		return election.ErrDeleted
	}
	return election.ErrEnded
}

// candidateSnapshot is state/ and one candidate's own keys at one index of Consul.
type candidateSnapshot struct {
	snapshot
	identity store.Entry
	own      store.Entry // the candidate's record
	joins    store.Entry // joins/<session>
}

// readCandidate reads state/ consistently. It also reads the candidate's record unless id is empty,
// and the session's key below joins/ unless session is empty.
func (b *backend) readCandidate(ctx context.Context, id, session string) (s candidateSnapshot,
	err error) {
	ops := []store.Op{
		store.GetOrEmpty(b.keys.identity()), store.GetOrEmpty(b.keys.leader()),
		store.GetOrEmpty(b.keys.handover()), store.GetOrEmpty(b.keys.ended()),
		store.GetOrEmpty(b.keys.term()),
	}
	if id != "" {
		ops = append(ops, store.GetOrEmpty(b.keys.candidate(id)))
	}
	if session != "" {
		ops = append(ops, store.GetOrEmpty(b.keys.joinsOf(session)))
	}
	r, err := b.conn.store.ReadTxn(ctx, ops...)
	if err != nil {
		return s, b.failed(err)
	}
	s.snapshot = b.keys.parse(r.Entries, 0)
	s.identity, _ = r.Entry(b.keys.identity())
	s.own, _ = r.Entry(b.keys.candidate(id))
	s.joins, _ = r.Entry(b.keys.joinsOf(session))
	return s, nil
}

// joinOnce returns the condition and the write that make a write of a candidate's record take
// effect at most once. The condition is that the session's key below joins/ is as it was read. The
// write changes that key. So Consul refuses every later copy, and every copy after Leave. Nobody
// watches the key, and it is deleted with the session.
func (b *backend) joinOnce(s candidateSnapshot, session string) []store.Op {
	key := b.keys.joinsOf(session)
	as := store.CheckNotExists(key)
	if s.joins.CreateIndex != 0 {
		as = store.CheckIndex(key, s.joins.ModifyIndex)
	}
	return []store.Op{as, store.Lock(key, []byte(rand.Text()), 0, session)}
}

// ensureElection reads the election and creates it if it does not exist. A late copy of the
// creation makes an election without candidates.
func (b *backend) ensureElection(ctx context.Context, id, session string) (s candidateSnapshot,
	err error) {
	for range 2 {
		s, err = b.readCandidate(ctx, id, session)
		if err != nil || s.identity.CreateIndex != 0 {
			return s, err
		}
		_, err = b.conn.store.Txn(ctx, store.Create(b.keys.identity(), encode(time.Now())))
		if err != nil && !errors.Is(err, store.ErrRefused) {
			return s, b.failed(err)
		}
	}
	return s, fmt.Errorf("%s changes too fast: try again", b.name)
}

// failed adds ErrSessionLost to an error of the store that says that the session is gone.
func (b *backend) failed(err error) error {
	if errors.Is(err, store.ErrSessionGone) {
		return fmt.Errorf("%w: %w", election.ErrSessionLost, err)
	}
	return err
}

func (b *backend) Join(ctx context.Context, c election.Candidate) (string, error) {
	session, err := b.conn.awaitSession(ctx)
	if err != nil {
		return "", err
	}
	done, err := b.conn.lockJoin(ctx, b.keys.root)
	if err != nil {
		return "", err
	}
	defer done()
	s, err := b.ensureElection(ctx, c.ID, session)
	if err != nil {
		return "", err
	}
	if err := s.endedError(); err != nil {
		return "", err
	}
	if s.own.CreateIndex != 0 && s.own.Session == session { // the reply to an earlier try was lost
		b.noteJoined(c, session, s.own.ModifyIndex, s.identity.CreateIndex)
		return session, nil
	}
	// The join is refused if this election has been deleted meanwhile.
	key := b.keys.candidate(c.ID)
	r, err := b.conn.store.Txn(ctx, append(b.joinOnce(s, session),
		store.CheckIndex(b.keys.identity(),
			s.identity.ModifyIndex),
		store.CheckNotExists(b.keys.ended()), store.Lock(key, encode(record{Candidate: c}), 0,
			session))...)
	if err != nil {
		b.noteUnknownJoin(c, session, err)
		return "", b.failed(err)
	}
	e, _ := r.Entry(key)
	b.noteJoined(c, session, e.ModifyIndex, s.identity.CreateIndex)
	return session, nil
}

func (b *backend) noteJoined(c election.Candidate, session string, record, incarnation uint64) {
	b.succeeded(func() {
		b.self, b.session, b.record, b.incarnation = c, session, record, incarnation
		b.values = valuesOf(c, b.conn.cfg.LockDelay)
	})
}

// noteUnknownJoin records that a request of unknown outcome may still create the record of c.
func (b *backend) noteUnknownJoin(c election.Candidate, session string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.self, b.joinUnknown = c, b.joinUnknown || store.OutcomeUnknown(err)
	b.values = valuesOf(c, b.conn.cfg.LockDelay)
	if b.session == "" {
		b.unknownJoinSession = session
	}
}

func (b *backend) Take(ctx context.Context) (uint64, time.Duration, error) {
	m := b.candidacy()
	token, retry, err := b.take(ctx, m)
	switch {
	case err != nil: // it may have the leader's record, and has no duty
		b.conn.noteEnd(b, m.session, err)
	case token != 0 && !b.conn.begins(b, m.session):
		return 0, 0, fmt.Errorf("%w: %w", election.ErrSessionLost, errHeldInVain)
	}
	return token, retry, err
}

func (b *backend) take(ctx context.Context, m candidacy) (uint64, time.Duration, error) {
	if left := time.Until(m.takeFrom); left > 0 {
		return 0, left, nil
	}
	leader := b.keys.leader()
	term := m.values.term
	// Consul checks the lock-delay before it applies an entry. A request that has passed this check
	// can take the leadership just after another leader's session was ended, inside that leader's
	// lease. The condition on the term refuses it: the request does not know of that leader.
	r, err := b.conn.store.Txn(ctx,
		store.CheckIndex(b.keys.candidate(m.ID), m.record),
		store.CheckNotExists(b.keys.ended()),
		store.CheckNotExists(leader),
		store.CAS(b.keys.term(), term, 0, m.term),
		store.Lock(leader, m.values.leader, 0, m.session), store.Delete(b.keys.handover()))
	if err == nil {
		e, _ := r.Entry(leader)
		b.noteTaken(e.ModifyIndex)
		return e.ModifyIndex, 0, nil
	}
	refused, ok := errors.AsType[*store.RefusedError](err)
	if !ok {
		return 0, 0, b.failed(err)
	}
	// Consul refused the transaction. Find out which condition failed. It looks at a lock-delay before
	// it looks at the conditions, also at one that an earlier leader has left and that a server which
	// was started anew has replayed: this candidate may have the leadership nevertheless.
	s, err := b.readCandidate(ctx, m.ID, m.session)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case s.endedError() != nil && !m.owns(s.leader):
		return 0, 0, s.endedError()
	case refused.LockDelayed() && !m.owns(s.leader):
		return 0, min(max(b.conn.cfg.LockDelay/4, 50*time.Millisecond), time.Second), nil
	case m.owns(s.leader) && m.releasing:
		// A release of unknown outcome may still arrive, and it would end a leadership whose duty
		// has begun. So release now. This is not counted in ops: no view becomes outdated by it.
		record, err := b.release(ctx, m)
		if err != nil {
			return 0, 0, err
		}
		b.mu.Lock()
		b.noteReleased(record)
		b.mu.Unlock()
		return 0, 50 * time.Millisecond, nil
	case m.owns(s.leader):
		b.noteTaken(s.leader.CreateIndex)
		return s.leader.CreateIndex, 0, nil
	case s.own.CreateIndex == 0 || s.own.Session != m.session:
		return 0, 0, b.repair(ctx, m, s)
	case s.own.ModifyIndex != m.record, s.vacant() && s.term != m.term:
		// A stranger wrote to the record, or another leader came and went. Try again with the new
		// indexes.
		b.mu.Lock()
		b.record = s.own.ModifyIndex
		b.noteTerm(s.snapshot)
		b.mu.Unlock()
		return 0, 50 * time.Millisecond, nil
	case s.leader.CreateIndex != 0 && s.vacant():
		// A leader key that no session holds was written by a stranger. Delete it: the next leader
		// creates the key anew, and so gets a token above all earlier ones.
		_, err := b.conn.store.Txn(ctx, store.CheckIndex(leader, s.leader.ModifyIndex),
			store.Delete(leader))
		if err != nil && !errors.Is(err, store.ErrRefused) {
			return 0, 0, b.failed(err)
		}
		return 0, 50 * time.Millisecond, nil
	}
	return 0, 0, nil
}

// noteTerm records which term a Take may follow, and from when on. b.mu must be held.
// A Take may follow a term only if the leadership has been seen free in it: the lock-delay of the
// term's leader has begun by then. With the term of a leader that still leads, a Take that has
// passed Consul's check of the lock-delay could be applied just after that leader's session was
// ended.
// If the leader did not release, it may not know that it lost the leadership. So the Take waits for
// the leader's lock-delay, counted from the moment at which the leadership was first seen free.
func (b *backend) noteTerm(s snapshot) {
	switch {
	case !s.vacant():
		b.takeFrom = time.Time{}
	case s.term != b.term || b.takeFrom.IsZero():
		b.term, b.takeFrom = s.term, time.Now().Add(min(s.lastTerm.LockDelay, store.MaxLockDelay))
	}
}

// repair creates this candidate's record again after a stranger deleted it.
func (b *backend) repair(ctx context.Context, m candidacy, s candidateSnapshot) error {
	key := b.keys.candidate(m.ID)
	r, err := b.conn.store.Txn(ctx, append(b.joinOnce(s, m.session),
		store.CheckIndex(b.keys.identity(),
			s.identity.ModifyIndex),
		store.CheckNotExists(b.keys.ended()), store.Lock(key, encode(record{m.Candidate, m.round}),
			0, m.session))...)
	if err != nil {
		b.noteUnknownJoin(m.Candidate, m.session, err)
		return b.failed(err)
	}
	e, _ := r.Entry(key)
	b.mu.Lock()
	b.record, b.repaired = e.ModifyIndex, b.repaired+1
	b.mu.Unlock()
	return errors.New("this candidate's record was gone; it was made anew")
}

func (b *backend) noteTaken(token uint64) {
	b.succeeded(func() { b.token = token })
}

// noteOthers takes in that the leader's record is not this candidate's, by a read that knows so
// many of its operations. A record that is gone need not be given up.
func (b *backend) noteOthers(knownOps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if knownOps >= b.ops && !b.leaving { // else the read is older than what it has done
		b.conn.noteEnd(b, b.session, nil)
	}
}
