package onconsul_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
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
				e := nominated(t, conn, election.Config{Election: "demo", Name: "c1", Logger: log,
					Lead: untilTold})
				time.Sleep(time.Second)
				now := e.State().Get()
				if least <= 5*time.Second && now.Role != election.Leading ||
					least > 5*time.Second && (!errors.Is(now.Err, election.ErrInvalid) ||
						!strings.Contains(now.Err.Error(), "session_ttl_min")) {
					t.Errorf("it is told %v", now)
				}
				electiontest.Resign(e)
			})
		})
	}
}
