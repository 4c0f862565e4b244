package onconsul_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// An order to make way for a candidate that has left is void. Those who come later may ask all the
// same.
func TestAVoidOrderKeepsNobodyFromPreempting(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		w := &wire{next: s.consul.RoundTripper(), server: s}
		one, two := s.over(w), s.over(s.consul.RoundTripper())
		defer one.Close()
		defer two.Close()
		stands := func(over election.Connection, name string, priority int) *election.Election {
			return nominated(t, over, election.Config{Election: contested, Name: name,
				Priority: priority, Preempt: true, Lead: untilTold, Logger: s.log})
		}
		leader := stands(one, "leader", 0)
		time.Sleep(time.Second)
		w.sever() // it hears of the order when its candidate has left
		gone := stands(two, "gone", 1)
		time.Sleep(time.Second)
		gone.Resign()
		<-gone.Done()
		w.mend()
		time.Sleep(10 * time.Second)
		if s := leader.State().Get(); s.Role != election.Leading {
			t.Fatalf("the leader is told %v", s)
		}
		next := stands(two, "next", 1)
		time.Sleep(10 * time.Second)
		if s := next.State().Get(); s.Role != election.Leading {
			t.Errorf("who has the higher priority is told %v", s)
		}
		electiontest.Resign(leader, next)
	})
}

// A stranger's order names somebody by more than fits into a request: Consul's servers, as all of
// net/http's, take 1 MiB of headers.
func TestAnOrderWithALongIDKeepsNobodyFromPreempting(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		consul := s.consul.RoundTripper()
		conn := s.over(transport.When(consul, func(r *http.Request) bool {
			return len(r.URL.EscapedPath()) > http.DefaultMaxHeaderBytes
		}, transport.Always(http.StatusRequestHeaderFieldsTooLarge, "")))
		defer conn.Close()
		stands := func(name string, priority int) *election.Election {
			e := nominated(t, conn, election.Config{Election: contested, Name: name,
				Priority: priority, Preempt: true, Lead: untilTold, Logger: s.log})
			time.Sleep(time.Second)
			return e
		}
		leader := stands("leader", 0)
		order := fmt.Appendf(nil, `{"to":%q}`, strings.Repeat("%", 400<<10))
		if _, err := s.consul.Client().KV().Put(&api.KVPair{Value: order,
			Key: "election/" + contested + "/state/handover"}, nil); err != nil {
			t.Fatal(err)
		}
		next := stands("next", 1)
		time.Sleep(10 * time.Second)
		if s := next.State().Get(); s.Role != election.Leading {
			t.Errorf("who has the higher priority is told %v", s)
		}
		electiontest.Resign(leader, next)
	})
}
