package conformance_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/test/realconsul"
)

// threeServers is the leader of a cluster of three; an election starts when the other two are
// killed.
func threeServers(t *testing.T) target {
	c := realconsul.Start(t, realconsul.Options{Servers: 3})
	leader := c.Leader()
	tg := target{name: "real", base: "http://" + leader.Addr(),
		transport: leader.HTTPClient().Transport}
	tg.election = func(start bool) error {
		for _, s := range c.Servers {
			lever := s.Start
			if start {
				lever = s.Kill
			}
			if s == leader {
				continue
			}
			if err := lever(); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !start {
			return c.WaitReady(ctx)
		}
		for tg.leader(ctx) != `""` {
			if ctx.Err() != nil {
				return fmt.Errorf("it goes on leading: %w", ctx.Err())
			}
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	return tg
}

// leader is the body of /v1/status/leader.
func (tg target) leader(ctx context.Context) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, tg.base+"/v1/status/leader", nil)
	if err != nil {
		return err.Error()
	}
	resp, err := tg.transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(body))
}

// TestElection plays the scripts that need one, each target on servers of its own.
func TestElection(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) target{
		"real": threeServers, "port": embeddedOnPort, "in-process": embeddedInProcess,
	} {
		if *update && name != "real" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range scripts(t, "election/*.txt") {
				tg := start(t)
				answers := play(t, tg, s)
				if !*update {
					compare(t, s, answers, differencesOf(scriptName(s), tg.name))
				} else if err := os.WriteFile(s.name, []byte(s.text(answers)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// An election gives every session its whole time anew: the new leader does not know when it was
// last renewed.
func TestAnElectionResetsSessionTimers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) target{
		"real": threeServers, "port": embeddedOnPort, "in-process": embeddedInProcess,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tg := start(t)
			e := env{T: t, target: tg, client: tg.client(t)}
			id := e.session(api.SessionEntry{TTL: "10s"})
			time.Sleep(8 * time.Second)
			e.must(tg.election(true))
			begin := time.Now()
			e.must(tg.election(false))
			e.poll(patience, func() bool { return e.alive(id) })
			if took := time.Since(begin); took < expiredFrom {
				t.Errorf("ended %v after the election began, want 20 s and more", took)
			}
		})
	}
}
