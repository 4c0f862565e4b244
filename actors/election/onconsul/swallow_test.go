package onconsul_test

import (
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
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		var swallows atomic.Bool
		end := make(chan struct{})
		conn := s.with(onconsul.Config{}, transport.Func(
			func(r *http.Request) (*http.Response, error) {
				if swallows.Load() && strings.HasPrefix(r.URL.Path, "/v1/session/") {
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
		select {
		case <-a.Done():
		case <-time.After(15 * time.Second):
			t.Fatalf("15 s after Consul is back it is told %v", a.State().Get())
		}
		if !errors.Is(a.Err(), election.ErrSessionLost) {
			t.Errorf("it ends with %v", a.Err())
		}
	})
}
