package actors

import (
	"context"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/messages"
)

// newConfigStore is this member's config store. It writes under the member's id, so it lets nothing
// be written before the member is registered: of two processes with one id it is the registered
// one's.
func newConfigStore(h *base, c *cells) (*configstore.Store, error) {
	if h.Backend != BackendConsul {
		return configstore.None(), nil
	}
	return configstore.New(configstore.Config{
		Service: h.Service, Client: h.Client, Consul: h.Consul, Owner: h.ID, LogDir: h.ConfigLog,
		Logger: h.log, Process: h.Process,
		// Who is registered has been settled with its predecessor.
		Liveness: func(Process) Liveness { return Unknown },
		Admit: func(ctx context.Context) error {
			_, err := c.membership.Reader().Wait(ctx, func(m messages.Membership) bool {
				return m.Phase == messages.Registered || m.Phase == messages.Leaving
			})
			return err
		},
		Term: func() uint64 {
			if m := c.membership.Get(); m.Phase == messages.Registered {
				return m.Index
			}
			return 0
		},
	})
}
