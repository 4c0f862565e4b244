package onconsul_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
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

// One that Consul never takes, for a reason of its own, is tried again behind the others.
func TestALeftoverThatAlwaysFailsHoldsNoOtherUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var cut, broken atomic.Bool
		fails := transport.When(s.consul.RoundTripper(), func(r *http.Request) bool {
			return broken.Load() && transport.TxnWith("election/bad/")(r)
		}, transport.Always(http.StatusInternalServerError, "it does not work"))
		conn := s.over(transport.When(fails, func(*http.Request) bool { return cut.Load() },
			transport.Fail(io.ErrUnexpectedEOF)))
		var all []*election.Election
		for _, name := range []string{"bad", "left-1", "left-2"} {
			all = append(all, nominated(t, conn, election.Config{Election: name, Name: "n",
				Logger: s.log, Lead: untilTold}))
			time.Sleep(time.Second)
		}
		cut.Store(true)
		broken.Store(true)
		electiontest.Resign(all...)
		cut.Store(false)
		time.Sleep(15 * time.Second)
		keys, _, err := s.consul.Client().KV().Keys("election/", "", nil)
		must(t, err)
		for _, key := range keys {
			if strings.Contains(key, "/left-") && strings.Contains(key, "/candidates/") {
				t.Errorf("%s is still there", key)
			}
		}
		broken.Store(false)
		conn.Close()
	})
}
