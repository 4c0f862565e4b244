package onconsul_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A host's own transport that heeds no context, and never comes back from what it was called with
// while Consul was silent, is asked again: a candidate whose session is over is told so.
func TestRenewalsThatNeverComeBackAreNotWaitedForForEver(t *testing.T) {
	for _, path := range []string{"/v1/session/", "/v1/"} { // with the reports to its check, too
		synctest.Test(t, func(t *testing.T) {
			renewalsNeverComeBack(t, path)
		})
	}
}

func renewalsNeverComeBack(t *testing.T, path string) {
	s := newEmbedded(t)
	defer s.consul.Close()
	var swallows atomic.Bool
	end := make(chan struct{})
	conn := s.with(onconsul.Config{}, transport.Func(
		func(r *http.Request) (*http.Response, error) {
			if swallows.Load() && strings.HasPrefix(r.URL.Path, path) {
				<-end
			}
			return s.consul.RoundTripper().RoundTrip(r)
		}))
	defer conn.Close()
	defer close(end)
	a := nominated(t, conn, election.Config{Election: contested, Name: "a", Lead: untilTold,
		Logger: s.log})
	if _, err := a.State().Wait(t.Context(), leads); err != nil {
		t.Fatal(err)
	}
	swallows.Store(true)
	time.Sleep(40 * time.Second)
	swallows.Store(false)
	soon, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if _, err := a.State().Wait(soon, func(s election.Status) bool {
		return s.What == election.Over
	}); err != nil {
		t.Fatalf("15 s after Consul is back it is told %v", a.State().Get())
	}
	if !errors.Is(a.Err(), election.ErrSessionLost) {
		t.Errorf("it ends with %v", a.Err())
	}
}
