package onconsul_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// The connection may try to open the next session before a candidate has read why it lost the last.
func TestWhyASessionWasLostIsToldThoughNoneCanBeOpenedAnew(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		consul := s.consul.RoundTripper()
		var shut atomic.Bool // no session can be opened
		c := s.over(transport.Func(func(r *http.Request) (*http.Response, error) {
			if shut.Load() && r.URL.Path == "/v1/session/create" {
				return nil, errRefused
			}
			return consul.RoundTrip(r)
		}))
		defer c.Close()
		e := nominated(t, c, election.Config{Election: "demo", Name: "a", Logger: s.log})
		leads := func(s election.Status) bool { return s.Role == election.Leading }
		if _, err := e.State().Wait(t.Context(), leads); err != nil {
			t.Fatal(err)
		}
		shut.Store(true)
		session := c.Contact().Get().Session
		if _, err := s.consul.Client().Session().Destroy(session, nil); err != nil {
			t.Fatal(err)
		}
		<-e.Done()
		time.Sleep(time.Second)
		for _, got := range []string{e.State().Get().String(), c.Contact().Get().Why} {
			if !strings.Contains(got, "was ended before its time") {
				t.Errorf("it was told %q", got)
			}
		}
	})
}

// The way to Consul comes back, and a report to the check arrives before the session is asked
// about: the check passes again, and the session that ended with it stays ended.
func TestASessionThatEndedWithItsCheckIsToldSoAlthoughTheCheckPassesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		consul := s.consul.RoundTripper()
		var cut, reported atomic.Bool
		c := s.over(transport.Func(func(r *http.Request) (*http.Response, error) {
			report := strings.HasPrefix(r.URL.Path, "/v1/agent/check/")
			if cut.Load() || !report && !reported.Load() {
				return nil, errRefused
			}
			resp, err := consul.RoundTrip(r)
			if report && err == nil {
				reported.Store(true)
			}
			return resp, err
		}))
		defer c.Close()
		reported.Store(true)
		e := nominated(t, c, election.Config{Election: "demo", Name: "a", Logger: s.log})
		leads := func(s election.Status) bool { return s.Role == election.Leading }
		if _, err := e.State().Wait(t.Context(), leads); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		cut.Store(true)
		reported.Store(false)
		time.Sleep(7 * time.Second) // the check's TTL is 6.5 s, the session's 10 s
		cut.Store(false)
		<-e.Done()
		if got := e.State().Get().String(); !strings.Contains(got, "expired with its check") {
			t.Errorf("it was told %q", got)
		}
	})
}
