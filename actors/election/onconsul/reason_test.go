package onconsul_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// refusing is a way to Consul on which no session can be opened while shut.
type refusing struct {
	http.RoundTripper
	shut atomic.Bool
}

func (r *refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.shut.Load() && req.URL.Path == "/v1/session/create" {
		return nil, errRefused
	}
	return r.RoundTripper.RoundTrip(req)
}

// The connection may try to open the next session before a candidate has read why it lost the last.
func TestWhyASessionWasLostIsToldThoughNoneCanBeOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		way := &refusing{RoundTripper: s.consul.RoundTripper()}
		c := s.over(way)
		defer c.Close()
		e := nominated(t, c, election.Config{Election: "demo", Name: "a", Logger: s.log})
		leads := func(s election.Status) bool { return s.Role == election.Leading }
		if _, err := e.State().Wait(t.Context(), leads); err != nil {
			t.Fatal(err)
		}
		way.shut.Store(true)
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
