package onconsul_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Many leave while Consul cannot be asked. What is left of them is removed when it is back, and
// that takes longer than a lease: who leads over the same session goes on leading meanwhile.
func TestWhatManyLeaveBehindHoldsNoRenewalUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		consul := s.consul.RoundTripper()
		far := transport.Func(func(r *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			return consul.RoundTrip(r)
		})
		w := &wire{next: far, server: s}
		conn := s.over(w)
		defer conn.Close()
		nominate := func(name string) *election.Election {
			e := nominated(t, conn, election.Config{Election: name, Name: "n", Logger: s.log,
				Lead: untilTold})
			return e
		}
		stays := nominate("stays")
		var leave []*election.Election
		for i := range 60 {
			leave = append(leave, nominate(fmt.Sprint("left-", i)))
		}
		time.Sleep(3 * time.Second)
		before := stays.State().Get()
		if before.Role != election.Leading {
			t.Fatalf("it says: %v", before)
		}
		w.sever()
		for _, e := range leave {
			e.Resign()
		}
		for _, e := range leave {
			<-e.Done()
		}
		w.mend()
		changes := stays.State().Subscribe()
		for began := time.Now(); time.Since(began) < 30*time.Second; {
			wait, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			s, _ := changes.Next(wait)
			cancel()
			if s.Role != election.Leading || s.Token != before.Token {
				t.Errorf("%v after Consul is back it says: %v", time.Since(began), s)
				break
			}
		}
		keys, _, err := s.consul.Client().KV().Keys("election/left-", "", nil)
		if err != nil {
			t.Error(err)
		}
		for _, key := range keys {
			if strings.HasSuffix(key, "/state/leader") || strings.Contains(key, "/candidates/") {
				t.Errorf("%s is still there", key)
			}
		}
		stays.Resign()
		<-stays.Done()
	})
}
