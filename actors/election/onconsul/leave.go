package onconsul

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/internal/store"
)

func (b *backend) Release(ctx context.Context) error {
	m := b.candidacy()
	record, err := b.release(ctx, m)
	b.conn.noteEnd(b, m.session, err)
	if err != nil {
		return err
	}
	b.succeeded(func() { b.noteReleased(record) })
	return nil
}

// noteReleased records a release. record is the new ModifyIndex of the candidate record. b.mu must
// be held.
func (b *backend) noteReleased(record uint64) {
	b.record, b.token, b.round, b.releasing = record, 0, b.round+1, false
}

// asTaken is what Consul holds of a leader if nobody has written to its keys since its Take: the
// Take has written the leader's key and the term in one transaction. A transaction whose conditions
// are made of it saves the read before it. If it is refused, something was written.
func (b *backend) asTaken(m candidacy) (s candidateSnapshot, ok bool) {
	if m.token == 0 || m.joinUnknown || m.releasing {
		return s, false
	}
	s.term = m.token
	s.leader = store.Entry{Key: b.keys.leader(), Session: m.session, CreateIndex: m.token,
		ModifyIndex: m.token}
	s.own = store.Entry{Key: b.keys.candidate(m.ID), Session: m.session, CreateIndex: m.record,
		ModifyIndex: m.record}
	return s, true
}

// release gives the leadership up if this candidate has it. It returns the ModifyIndex of the
// candidate's record.
func (b *backend) release(ctx context.Context, m candidacy) (index uint64, err error) {
	if s, ok := b.asTaken(m); ok {
		index, err = b.releaseFrom(ctx, m, s)
		if !errors.Is(err, store.ErrRefused) {
			return index, err
		}
	}
	s, err := b.readCandidate(ctx, m.ID, "")
	if err != nil || !m.owns(s.leader) {
		return m.record, err
	}
	return b.releaseFrom(ctx, m, s)
}

// releaseFrom gives the leadership up if all is as in the snapshot.
func (b *backend) releaseFrom(ctx context.Context, m candidacy, s candidateSnapshot) (
	index uint64, _ error) {
	b.mu.Lock()
	b.releasing = true
	b.mu.Unlock()
	// The write changes the index of the candidate's record. So a Take that is still under way is
	// refused and cannot bring the leadership back.
	key := b.keys.candidate(m.ID)
	r, err := b.conn.store.Txn(ctx,
		store.CheckIndex(b.keys.leader(), s.leader.ModifyIndex),
		store.Delete(b.keys.leader()),
		b.keys.releaseTerm(s.snapshot, m.values.released),
		store.Lock(key, encode(record{m.Candidate, m.round + 1}), 0, m.session))
	if err != nil {
		return 0, b.failed(err)
	}
	e, _ := r.Entry(key)
	return e.ModifyIndex, nil
}

func (b *backend) Leave(ctx context.Context) error {
	b.mu.Lock()
	b.leaving = true
	b.mu.Unlock()
	m := b.candidacy()
	if m.session == "" {
		m.session = b.unknownJoinSession
	}
	call, cancel := context.WithTimeout(ctx, b.conn.cfg.TTL/3)
	defer cancel()
	err := contained.Call(b.conn.log, "leave", func() error { return b.leave(call, m) })
	b.mu.Lock()
	b.token = 0
	b.mu.Unlock()
	b.conn.noteEnd(b, m.session, err)
	if err == nil {
		return nil
	}
	// The connection tries again in the background. The session is shared and stays alive, so
	// nothing else would remove the record.
	b.conn.later(func(ctx context.Context) error {
		err := b.leave(ctx, m)
		b.conn.noteEnd(b, m.session, err)
		return err
	})
	return fmt.Errorf("%w: %w", election.ErrPending, err)
}

// leaveTries is how often Leave repeats at once a transaction that was refused because the
// leadership changed hands.
const leaveTries = 8

func (b *backend) leave(ctx context.Context, m candidacy) (err error) {
	if s, ok := b.asTaken(m); ok && b.conn.sessionLives(m.session) {
		if _, err = b.conn.store.Txn(ctx, b.leaveOps(m, s)...); !errors.Is(err, store.ErrRefused) {
			return err
		}
	}
	for range leaveTries {
		if !b.conn.sessionLives(m.session) {
			return nil // the session has ended and its keys with it
		}
		var s candidateSnapshot
		if s, err = b.readCandidate(ctx, m.ID, m.session); err != nil {
			return err
		}
		ops := b.leaveOps(m, s)
		if len(ops) == 0 {
			return nil
		}
		if _, err = b.conn.store.Txn(ctx, ops...); !errors.Is(err, store.ErrRefused) {
			return err
		}
	}
	return err
}

// leaveOps returns the operations that remove all keys of this candidate.
func (b *backend) leaveOps(m candidacy, s candidateSnapshot) (ops []store.Op) {
	if m.joinUnknown {
		// Nobody would remove the record that a late Join creates. The changed key below joins/ has
		// Consul refuse that Join.
		ops = append(ops, b.joinOnce(s, m.session)...)
	}
	if s.own.CreateIndex != 0 && !m.owns(s.leader) {
		// A late Take of this candidate may have won since the read, and nobody else would remove
		// its leader key. The condition finds that. Once the candidate's record is deleted, no
		// further Take can win.
		ops = append(ops, b.keys.sameTerm(s.snapshot))
	}
	// Both deletions hold as well where the key has gone with the session. The condition on the
	// term is then the one that counts: the duty has ended, and nobody has led since.
	if m.owns(s.leader) {
		ops = append(ops, store.DeleteCAS(b.keys.leader(), s.leader.ModifyIndex),
			b.keys.releaseTerm(s.snapshot, m.values.released))
	}
	if s.own.CreateIndex != 0 {
		ops = append(ops, store.DeleteCAS(b.keys.candidate(m.ID), s.own.ModifyIndex))
	}
	return ops
}
