package web

import (
	"log/slog"
	"testing"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/hashicorp/consul/api"
)

// loaded is a store that runs until the test ends, and has loaded. A server that it needs is to be
// closed by an earlier t.Cleanup, not by a defer.
func loaded(t *testing.T, client *api.Client,
	more ...func(*configstore.Config)) *configstore.Store {
	t.Helper()
	c := configstore.Config{Service: "demo", Client: client, Logger: slog.New(slog.DiscardHandler)}
	for _, m := range more {
		m(&c)
	}
	store, err := configstore.New(c)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- store.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	must(t, store.WaitLoaded(t.Context()))
	return store
}
