package onconsul

import (
	"context"
	"errors"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/store"
)

// Depart resigns for a candidate whose process has died. It deletes the leadership of the election
// if session has it, and the record of that leader; if nobody leads, the records of the session's
// candidates, 63 at the most. Then it destroys the session in any case. So the next candidate leads
// at once. Where Consul's rules deny the deletions, it leads after the lock-delay, and the error
// says so. All duties must have ended. It uses Client, Consul, Prefix and Logger of cfg. Depart
// tries until ctx ends. It tells whether the session led.
func Depart(ctx context.Context, cfg Config, name, session string) (led bool, err error) {
	cfg = cfg.withDefaults()
	s, err := store.New(store.Config{Client: cfg.Client, Address: cfg.Consul, Logger: cfg.Logger})
	if err != nil {
		return false, err
	}
	k := keysOf(cfg.Prefix, name)
	var denied error // to wait for other rules would keep the session alive
	for tries := 0; ; tries++ {
		err = s.Retry(ctx, "departure", func(ctx context.Context) error {
			gave, err := k.depart(ctx, s, session)
			led = led || gave
			if errors.Is(err, store.ErrDenied) {
				denied, err = err, nil
			}
			return err
		})
		if !errors.Is(err, store.ErrRefused) {
			break
		}
		if err = nil; tries == leaveTries {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		return led, err
	}
	// In any case: what could not be given up is free after the lock-delay then.
	return led, errors.Join(err, denied, s.Retry(ctx, "departure", func(ctx context.Context) error {
		return s.DestroySession(ctx, session)
	}))
}

// depart gives up what the session has of the election, as far as others would wait for it. It is
// refused if the leadership has changed hands since it looked.
func (k keys) depart(ctx context.Context, s *store.Store, session string) (led bool, err error) {
	read, err := s.ReadTxn(ctx, store.GetOrEmpty(k.leader()), store.GetOrEmpty(k.term()))
	if err != nil {
		return false, err
	}
	now := k.parse(read.Entries, 0)
	switch {
	case now.vacant():
		return false, k.departFromQueue(ctx, s, now, session)
	case now.leader.Session != session:
		return false, nil
	}
	id := k.idOf(now.leader)
	ops := []store.Op{store.CheckIndex(now.leader.Key, now.leader.ModifyIndex),
		store.Delete(now.leader.Key), k.releaseTerm(now, releasedBy(id))}
	if id != "" {
		key := k.candidate(id)
		own, err := s.ReadTxn(ctx, store.GetOrEmpty(key))
		if err != nil {
			return false, err
		}
		if e, _ := own.Entry(key); e.Session == session {
			// Without this the next candidate would wait for the dead one, which is before it,
			// until its session is destroyed.
			ops = append(ops, store.CheckSession(key, session), store.Delete(key))
		}
	}
	_, err = s.Txn(ctx, ops...)
	return err == nil, err
}

// departFromQueue deletes the session's candidates while nobody leads. A Take of one of them may be
// under way still: without its record it is refused, and with it the end of the session would leave
// a lock-delay behind. If it has won already, this is refused.
func (k keys) departFromQueue(ctx context.Context, s *store.Store, now snapshot,
	session string) error {
	entries, _, err := s.List(ctx, k.candidates(), store.Consistent)
	if err != nil {
		return err
	}
	ops := []store.Op{k.sameTerm(now)}
	for _, e := range entries {
		if e.Session == session && len(ops)+2 <= store.MaxOps {
			ops = append(ops, store.CheckSession(e.Key, session), store.Delete(e.Key))
		}
	}
	if len(ops) > 1 {
		_, err = s.Txn(ctx, ops...)
	}
	return err
}

// idOf returns the id of the leader whose record that is; empty: a stranger has written over it
// what is no candidate's.
func (k keys) idOf(leader store.Entry) string {
	r, _ := parseRecord(leader)
	if len(r.ID) > election.MaxNameBytes || store.CheckKey("", k.candidate(r.ID)) != nil {
		return ""
	}
	return r.ID
}
