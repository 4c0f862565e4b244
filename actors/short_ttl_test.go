package actors_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
)

// Consul takes no TTL below its session_ttl_min, 10 s by default: what it takes is taken, and what
// it refuses ends the member at its start, with the range that Consul names.
func TestConsulHasTheLastWordOnAShortTTL(t *testing.T) {
	for _, c := range []struct {
		least time.Duration // of the server; 0: its default
		ttl   time.Duration
		taken bool
	}{
		{2 * time.Second, 2 * time.Second, true},
		{2 * time.Second, 5 * time.Second, true},
		{0, 5 * time.Second, false},
		{time.Minute, 30 * time.Second, false},
	} {
		t.Run(c.ttl.String()+" of "+c.least.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				consul := devconsul.New(devconsul.Config{SessionTTLMin: c.least,
					Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
				defer consul.Close()
				m, err := actors.New(actors.Config{Timing: actors.Timing{TTL: c.ttl},
					Service: "demo", ID: "n1",
					Client: consul.Client(), Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				ctx, stop := context.WithCancel(t.Context())
				go func() { ended <- m.Run(ctx) }()
				time.Sleep(time.Minute)
				if s := m.Session().Get(); c.taken {
					if s.ID == "" || s.Count != 1 || s.Lease.TTL != c.ttl {
						t.Errorf("its session after a minute: %+v", s)
					}
					stop()
					if err := <-ended; err != nil {
						t.Error(err)
					}
					return
				}
				stop()
				if err := <-ended; !errors.Is(err, actors.ErrInvalid) ||
					!strings.Contains(err.Error(), "session_ttl_min") {
					t.Errorf("the member ended with %v", err)
				}
			})
		})
	}
}
