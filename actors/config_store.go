package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/messages"
)

// newConfigStore is this member's config store. It writes under the member's id, so it lets nothing
// be written before the member is registered: of two processes with one id it is the registered
// one's.
func newConfigStore(c Config, log *slog.Logger, membership messages.Reader[messages.Membership],
	session messages.Reader[messages.Session]) (*configstore.Store, error) {
	if c.Backend != BackendConsul {
		return configstore.None(), nil
	}
	return configstore.New(configstore.Config{
		Service: c.Service, Client: c.Client, Consul: c.Consul, Owner: c.ID, LogDir: c.ConfigLog,
		Observer: c.Observer,
		Logger:   log, Process: c.Process,
		// Who is registered has been settled with its predecessor: one that lives is in nobody's way.
		// The markers of the dead are collected, those of commands on this host.
		Liveness: func(p Process) Liveness {
			if p.Liveness() == Dead {
				return Dead
			}
			return Unknown
		},
		Admit: func(ctx context.Context) error { return awaitRegistered(ctx, membership, session) },
		Term: func() uint64 {
			if m := membership.Get(); m.Phase == messages.Registered {
				return m.Index
			}
			return 0
		},
	})
}

// awaitRegistered waits until the member is registered by a session that it may count on. While it
// is cut off the session may be over, and a successor registered: it hears of that later.
func awaitRegistered(ctx context.Context, membership messages.Reader[messages.Membership],
	session messages.Reader[messages.Session]) error {
	members, sessions := membership.Subscribe(), session.Subscribe()
	for {
		m, s := members.Take(), sessions.Take()
		if m.In(s.ID) && s.Holds(time.Now(), 0) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-members.Changed():
		case <-sessions.Changed():
		}
	}
}
