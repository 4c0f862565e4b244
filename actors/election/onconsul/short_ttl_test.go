package onconsul_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
)

// Consul takes no TTL below its session_ttl_min, 10 s by default: what it takes is taken, and what
// it refuses ends the candidates, with the range that Consul names.
func TestConsulHasTheLastWordOnAShortTTL(t *testing.T) {
	for _, least := range []time.Duration{2 * time.Second, 10 * time.Second} {
		t.Run(least.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := slog.New(slog.DiscardHandler)
				consul := devconsul.New(devconsul.Config{SessionTTLMin: least})
				defer consul.Close()
				conn, err := onconsul.Connect(onconsul.Config{Client: consul.Client(),
					TTL: 5 * time.Second, Logger: log})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				e, err := election.New(conn, election.Config{Election: "demo", Name: "c1",
					Logger: log})
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				statuses, err := e.Nominate(ctx)
				if err != nil {
					t.Fatal(err)
				}
				led, told := false, false
				for s := range statuses {
					if s.Role == election.Leading {
						if left := time.Until(s.Until); left > 5*time.Second {
							t.Errorf("it leads for %v", left)
						}
						led = true
						stop()
					}
					if told = s.Err != nil; told {
						if !errors.Is(s.Err, election.ErrInvalid) ||
							!strings.Contains(s.Err.Error(), "session_ttl_min") {
							t.Errorf("the candidacy ended with %v", s.Err)
						}
						if took := time.Since(begin); took > time.Second {
							t.Errorf("it was told after %v", took)
						}
					}
				}
				if taken := least <= 5*time.Second; led != taken || told == taken {
					t.Errorf("it led: %v, it was told of an error: %v", led, told)
				}
			})
		})
	}
}
