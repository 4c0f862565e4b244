package onzk_test

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
)

// Credentials that no server has taken yet keep nobody from leaving, or from being told why
// nothing is known.
func TestWithoutZooKeeperACandidateLeavesAndAFollowerIsToldWhy(t *testing.T) {
	for name, digest := range map[string]string{"no credentials": "", "credentials": "u:p"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
				c, err := onzk.Connect(onzk.Config{
					Servers: []string{"127.0.0.1:1"}, Digest: digest, Logger: quiet,
					Dial: func(string, string, time.Duration) (net.Conn, error) {
						return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
					},
				})
				must(t, err)
				defer c.Close()
				participant := func() *election.Election {
					e, err := election.New(c, election.Config{Election: "demo", Name: "n",
						Logger: quiet})
					must(t, err)
					return e
				}
				candidate, follower := participant(), participant()
				if _, err := candidate.Nominate(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := follower.Follow(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				for _, e := range []*election.Election{candidate, follower} {
					if s := e.State().Get(); !strings.Contains(s.Reason, "server") {
						t.Errorf("it is told %v", s)
					}
				}
				candidate.Resign()
				follower.Resign()
				time.Sleep(5 * time.Second)
				for _, e := range []*election.Election{candidate, follower} {
					if s := e.State().Get(); !s.Resigned {
						t.Errorf("it has resigned, and is told %v", s)
					}
				}
			})
		})
	}
}
