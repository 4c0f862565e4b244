package onconsul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/backend"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// keys are the keys of one election.
type keys struct{ root string }

func keysOf(prefix, name string) keys { return keys{prefix + name + "/"} }

func (k keys) candidates() string         { return k.root + "candidates/" }
func (k keys) candidate(id string) string { return k.candidates() + id }
func (k keys) watched() string            { return k.root + "state/" }
func (k keys) state() string              { return k.watched() + "election" }
func (k keys) leader() string             { return k.watched() + "leader" }
func (k keys) sequences() string          { return k.root + "sequence/" }

// sequence is the sequence key of a session: each join of the session moves it.
func (k keys) sequence(session string) string { return k.sequences() + session }

// keyStore is the backend.Store of one election.
type keyStore struct {
	conn *Conn
	keys keys
}

func (s *keyStore) Contact() messages.Reader[election.Contact] { return s.conn.Contact() }

func (s *keyStore) Session(ctx context.Context) (string, error) { return s.conn.awaitSession(ctx) }

func (s *keyStore) Lives(session string) bool { return s.conn.sessionLives(session) }

func (s *keyStore) Passing(err error) bool { return errors.Is(err, store.ErrUnreachable) }

// failed maps an error of the store. A session that Consul does not know ends when the next
// renewal says so, which is asked for at once: it knows how the session has ended.
func (s *keyStore) failed(err error) error {
	switch {
	case errors.Is(err, store.ErrUnknownToken):
		return fmt.Errorf("%w: %w", election.ErrDenied, err)
	case errors.Is(err, store.ErrDenied):
		return fmt.Errorf("%w: %w; give the token write below %s (key_prefix), and on the session's "+
			"node (session_prefix)", election.ErrDenied, err, s.keys.root)
	case errors.Is(err, store.ErrSessionGone):
		s.conn.wakeRun()
		return fmt.Errorf("%w: %w", election.ErrSessionLost, err)
	case errors.Is(err, store.ErrRefused):
		if refused, ok := errors.AsType[*store.RefusedError](err); ok && refused.LockDelayed() {
			return fmt.Errorf("%w: %w", backend.ErrLockDelay, err)
		}
		return fmt.Errorf("%w: %w", backend.ErrChanged, err)
	}
	return err
}

func (s *keyStore) Read(ctx context.Context, id string) (r backend.Reading, err error) {
	if id == "" {
		entries, index, err := s.conn.store.List(ctx, s.keys.watched(), store.Consistent)
		if err != nil {
			return r, s.failed(err)
		}
		return s.parse(entries, index), nil
	}
	session := s.conn.liveID()
	own, sequence := s.keys.candidate(id), s.keys.sequence(session)
	if err := store.CheckKey("the candidate's key", own); err != nil {
		return r, fmt.Errorf("%w: %w", election.ErrNoCandidate, err)
	}
	ops := []store.Op{store.GetOrEmpty(s.keys.state()), store.GetOrEmpty(s.keys.leader()),
		store.GetOrEmpty(own)}
	if session != "" {
		ops = append(ops, store.GetOrEmpty(sequence))
	}
	result, err := s.conn.store.Txn(ctx, ops...)
	if err != nil {
		return r, s.failed(err)
	}
	r = s.parse(result.Entries, 0)
	record, _ := result.Entry(own)
	marks, _ := result.Entry(sequence)
	r.Owner, r.Marks = record.Session, marks.ModifyIndex
	return r, nil
}

// parse reads the state and the leader's key.
func (s *keyStore) parse(entries []store.Entry, index uint64) backend.Reading {
	r := backend.Reading{Index: index}
	for _, e := range entries {
		switch {
		case e.CreateIndex == 0: // a read of a missing key
		case e.Key == s.keys.state():
			r.Incarnation, r.Version = e.CreateIndex, e.ModifyIndex
			r.State = backend.ParseState(e.Value)
		case e.Key == s.keys.leader() && e.Session != "":
			r.Session, r.Token, r.Held = e.Session, e.CreateIndex, e.ModifyIndex
			if c, ok := backend.ParseCandidate(e.Value); ok {
				r.Leader = c
			} else {
				r.Leader = election.Candidate{ID: "session " + e.Session,
					Name: "(its record cannot be read)"}
			}
		}
	}
	return r
}

// emptyPause is the pause between two polls of an election that does not exist. Every write
// elsewhere in the store ends such a poll.
const emptyPause = time.Second

func (s *keyStore) Watch(ctx context.Context, seen func(backend.Reading, error)) {
	done, err := s.conn.countElection()
	if err != nil {
		seen(backend.Reading{}, err)
		<-ctx.Done()
		return
	}
	defer done()
	watch := store.WatchPrefix(s.conn.store, s.keys.watched()).
		Wait(min(2*s.conn.cfg.TTL, time.Minute))
	next := func(poll context.Context) (store.View, error) {
		v, err := watch.Next(poll)
		if err != nil && poll.Err() == nil {
			seen(backend.Reading{}, s.failed(err))
		}
		return v, err
	}
	led := false
	for v := range watch.Views(ctx, "watch of election "+s.keys.root, &s.conn.polls, next) {
		r := s.parse(v.Entries, v.Index)
		seen(r, nil)
		if leads := r.Session != "" && s.Lives(r.Session); led && !leads {
			s.conn.wakeRun() // most likely the session is lost: its next renewal tells
		} else {
			led = leads
		}
		if len(v.Entries) == 0 {
			store.Pause(ctx, emptyPause)
		}
	}
}

// queue reads the records of the candidates, in the order in which they lead: by priority, then by
// their creation.
func (s *keyStore) queue(ctx context.Context) ([]election.Candidate, error) {
	entries, _, err := s.conn.store.List(ctx, s.keys.candidates(), store.Consistent)
	if err != nil {
		return nil, s.failed(err)
	}
	type place struct {
		election.Candidate
		came uint64
	}
	var places []place
	for _, e := range entries {
		c, ok := backend.ParseCandidate(e.Value)
		if id := strings.TrimPrefix(e.Key, s.keys.candidates()); ok && e.Session != "" &&
			id == c.ID {
			places = append(places, place{c, e.CreateIndex})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.came, b.came))
	})
	all := make([]election.Candidate, len(places))
	for i, p := range places {
		all[i] = p.Candidate
	}
	return all, nil
}

func (s *keyStore) Candidates(ctx context.Context) (all []election.Candidate, err error) {
	err = store.RetryUnlessDenied(ctx, s.conn.store, "candidates", func(ctx context.Context) error {
		all, err = s.queue(ctx)
		return err
	})
	return all, err
}

func (s *keyStore) Queue(ctx context.Context) (ids []string, err error) {
	all, err := s.queue(ctx)
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids, err
}

// Create makes the state. A late copy of it makes an election with nobody in it.
func (s *keyStore) Create(ctx context.Context) error {
	_, err := s.conn.store.Txn(ctx, store.Create(s.keys.state(), backend.Encode(backend.State{})))
	if err = s.failed(err); errors.Is(err, backend.ErrChanged) {
		return nil
	}
	return err
}

// Fit sends what a candidate may have to write, with a condition that never holds: Consul looks at
// the rules first.
func (s *keyStore) Fit(ctx context.Context, c election.Candidate) error {
	var ops []store.Op
	for _, key := range []string{s.keys.state(), s.keys.leader(), s.keys.candidate(c.ID),
		s.keys.sequence("any")} {
		ops = append(ops, store.Set(key, nil, 0))
	}
	_, err := s.conn.store.Txn(ctx, append(ops, store.CheckNotExists(s.keys.state()))...)
	if errors.Is(err, store.ErrRefused) {
		return nil
	}
	return s.failed(err)
}

func (s *keyStore) Commit(ctx context.Context, c backend.Change) (token uint64, err error) {
	result, err := s.conn.store.Txn(ctx, s.ops(c)...)
	if err != nil {
		return 0, s.failed(err)
	}
	leader, _ := result.Entry(s.keys.leader())
	return leader.ModifyIndex, nil
}

// ops are the operations of a change.
func (s *keyStore) ops(c backend.Change) (ops []store.Op) {
	state, leader, own := s.keys.state(), s.keys.leader(), s.keys.candidate(c.Self.ID)
	switch {
	case c.State != nil:
		ops = append(ops, store.CAS(state, backend.Encode(c.State), 0, c.From.Version))
	case c.From.Version != 0:
		ops = append(ops, store.CheckIndex(state, c.From.Version))
	}
	switch c.Leader {
	case backend.Make:
		ops = append(ops, store.CheckNotExists(leader),
			store.Lock(leader, backend.Encode(c.Self), 0, c.Session))
	case backend.Need:
		ops = append(ops, store.CheckIndex(leader, c.From.Held))
	case backend.Drop:
		ops = append(ops, store.CheckIndex(leader, c.From.Held), store.Delete(leader))
	}
	if c.Record == backend.Make || c.Seal {
		ops = append(ops, s.moveSequence(c)...)
	}
	switch c.Record {
	case backend.Make:
		ops = append(ops, store.CheckNotExists(own),
			store.Lock(own, backend.Encode(c.Self), 0, c.Session))
	case backend.Need:
		ops = append(ops, store.CheckSession(own, c.Session))
	case backend.Drop:
		ops = append(ops, store.Delete(own))
	}
	if c.To != "" {
		ops = append(ops, store.CheckSession(s.keys.candidate(c.To), c.From.Owner))
	}
	return ops
}

// moveSequence makes a join take effect once at most: it moves the sequence key of the session from
// where it was read. So a copy of it is refused, and so is one that is under way when the candidate
// leaves. The key goes with the session.
func (s *keyStore) moveSequence(c backend.Change) []store.Op {
	key := s.keys.sequence(c.Session)
	is := store.CheckNotExists(key)
	if c.From.Marks != 0 {
		is = store.CheckIndex(key, c.From.Marks)
	}
	return []store.Op{is,
		store.Lock(key, strconv.AppendUint(nil, c.From.Marks, 10), 0, c.Session)}
}

// Remove deletes the keys. The first condition refuses a late request, which would hit the next
// election of this name.
func (s *keyStore) Remove(ctx context.Context, r backend.Reading) error {
	_, err := s.conn.store.Txn(ctx, store.CheckIndex(s.keys.state(), r.Version),
		store.CheckNotExists(s.keys.leader()), store.DeleteTree(s.keys.candidates()),
		store.DeleteTree(s.keys.sequences()), store.DeleteTree(s.keys.watched()))
	return s.failed(err)
}
