package actors

import (
	"context"
	"log/slog"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/messages"
)

// newConfigStore is this member's config store. It writes under the member's id, so it lets nothing
// be written before the member is registered: of two processes with one id it is the registered
// one's.
func newConfigStore(c Config, log *slog.Logger, membership messages.Reader[messages.Membership]) (
	*configstore.Store, error) {
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
		Admit: func(ctx context.Context) error {
			_, err := membership.Wait(ctx, func(m messages.Membership) bool {
				return m.Phase == messages.Registered || m.Phase == messages.Leaving
			})
			return err
		},
		Term: func() uint64 {
			if m := membership.Get(); m.Phase == messages.Registered {
				return m.Index
			}
			return 0
		},
	})
}
