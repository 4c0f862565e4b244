package actors

import (
	"log/slog"

	"github.com/coordd/coordd/actors/configstore"
)

// newConfigStore is this member's config store.
func newConfigStore(c Config, log *slog.Logger) (*configstore.Store, error) {
	if c.Backend != BackendConsul {
		return configstore.None(), nil
	}
	return configstore.New(configstore.Config{Service: c.Service, Client: c.Client, Consul: c.Consul,
		LogDir: c.ConfigLog, Observer: c.Observer, Logger: log})
}
