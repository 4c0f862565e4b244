package onconsul

import (
	"context"
	"errors"

	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// Depart gives up, for a candidate that died, what its session holds: the leadership of the
// election, so that the next one may have it at once, its record, and then the session itself. All
// duties must have ended. Prefix is that of Config. It tries until ctx ends, and tells whether that
// session led.
func Depart(ctx context.Context, client *api.Client, prefix, name, session string) (led bool,
	err error) {
	s, err := store.New(store.Config{Client: client, Service: "election"})
	if err != nil {
		return false, err
	}
	if prefix == "" {
		prefix = DefaultPrefix
	}
	k := keysOf(prefix, name)
	err = s.Retry(ctx, "farewell", func(ctx context.Context) error {
		read, err := s.ReadTxn(ctx, store.GetOrEmpty(k.leader()), store.GetOrEmpty(k.term()))
		if err != nil {
			return err
		}
		now := k.parse(read.Entries, 0)
		if now.vacant() || now.leader.Session != session {
			return nil
		}
		r, ok := parseRecord(now.leader)
		ops := []store.Op{store.CheckIndex(now.leader.Key, now.leader.ModifyIndex),
			store.Delete(now.leader.Key), k.givenUp(now, r.ID)}
		if ok {
			// or the next one would wait for it to lead again
			ops = append(ops, store.Delete(k.candidate(r.ID)))
		}
		if _, err = s.Txn(ctx, ops...); errors.Is(err, store.ErrRefused) {
			return nil
		}
		led = led || err == nil
		return err
	})
	if err != nil {
		return led, err
	}
	return led, s.Retry(ctx, "farewell", func(ctx context.Context) error {
		return s.DestroySession(ctx, session)
	})
}
