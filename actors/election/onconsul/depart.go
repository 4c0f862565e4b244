package onconsul

import (
	"context"
	"errors"

	"github.com/coordd/coordd/actors/election/internal/backend"
	"github.com/coordd/coordd/internal/store"
)

// Depart resigns for a candidate whose process has died. It gives the leadership of the election up
// if session has it, and deletes the records of the session's candidates. Then it ends the session
// in any case, and takes its instance of the service away. So the next candidate leads at once, and
// Consul shows the dead one no more. All duties must have ended. It uses Client, Consul, Prefix and
// Logger of cfg. Depart tries until ctx ends. It tells whether the session led.
func Depart(ctx context.Context, cfg Config, name, session string) (led bool, err error) {
	cfg = cfg.withDefaults()
	client, err := store.Open(store.Config{Client: cfg.Client, Address: cfg.Consul,
		Logger: cfg.Logger})
	if err != nil {
		return false, err
	}
	s := &keyStore{conn: &Conn{store: client, wake: make(chan struct{}, 1)},
		keys: keysOf(cfg.Prefix, name)}
	var gave error
	for changed := true; changed; {
		gave = store.RetryUnlessDenied(ctx, client, "departure", func(ctx context.Context) error {
			leads, err := s.depart(ctx, session)
			led = led || leads
			return err
		})
		changed = errors.Is(gave, backend.ErrChanged) && ctx.Err() == nil
	}
	if gave != nil && ctx.Err() != nil {
		return led, gave
	}
	// In any case: what could not be given up is free after the lock-delay then.
	return led, errors.Join(gave, store.EndSession(ctx, client, session))
}

// depart makes one attempt. A take of one of the session's candidates may be under way: without the
// candidate's record it is refused, and if it has won already this is.
func (s *keyStore) depart(ctx context.Context, session string) (led bool, err error) {
	entries, _, err := s.conn.store.List(ctx, s.keys.candidates(), store.Consistent)
	if err != nil {
		return false, err
	}
	r, err := s.Read(ctx, "")
	if err != nil || r.Incarnation == 0 {
		return false, err
	}
	led = r.Session == session
	c := backend.Change{From: r}
	if led {
		c = backend.GiveUp(r)
	}
	ops := s.ops(c)
	for _, e := range entries {
		if e.Session == session && len(ops) < store.MaxOps {
			ops = append(ops, store.Delete(e.Key))
		}
	}
	_, err = s.conn.store.Txn(ctx, ops...)
	return led && err == nil, s.failed(err)
}
