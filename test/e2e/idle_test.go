//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// Neither a member with work nor the leader asks for anything while nothing changes in their
// service, however much does elsewhere in the same Consul.
func TestAnIdleMemberHoldsThreeLongPollsAndSendsOnlyItsRenewal(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second // a renewal waits for as long as a busy machine's disk may take
	const renew = ttl / 3
	consul := realconsul.Start(t, realconsul.Options{})
	s := newService(t, consul.Addr())
	proxies := map[string]*proxy{}
	for _, id := range []string{"n1", "n2"} {
		proxies[id] = newProxy(t, consul.Addr())
		s.start(id, "--consul", proxies[id].addr, "--ttl", ttl.String())
		testkit.Await(t, startLimit, "it is there", func() string {
			return s.now().unlike(len(proxies), 0)
		})
	}
	s.share(10)
	if leader := s.now().Leader.ID; leader != "n1" {
		t.Fatalf("%s leads, not the only member there was", leader)
	}

	for id := range proxies {
		s.summarised(consul.Client().KV(), id, 5)
	}

	// What a member sends when Consul does not answer in time says nothing of an idle one.
	for limit := time.Now().Add(workLimit); ; {
		said := s.said("consul-unreachable")
		wrong := s.whileIdle(proxies, renew, consul.Client().KV())
		if s.said("consul-unreachable") == said {
			for _, w := range wrong {
				t.Error(w)
			}
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("no %v within %v in which Consul answered all requests in time", 3*renew,
				workLimit)
		}
	}
}

// whileIdle tells what was wrong with what the leader n1 and the member n2 sent in three renewals'
// time, while somebody else wrote.
func (s *service) whileIdle(proxies map[string]*proxy, renew time.Duration, kv *api.KV) []string {
	t := s.t
	var wrong []string
	fault := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	want := map[string]int{"n1": 7, "n2": 3}
	forgotten := map[string]time.Time{} // since when each proxy counts
	for id, p := range proxies {
		testkit.Await(t, startLimit, "the long polls of "+id, func() string {
			if _, polls, _ := p.count(); polls != want[id] {
				return fmt.Sprintf("%d, not %d", polls, want[id])
			}
			return ""
		})
		forgotten[id] = time.Now()
		p.forget()
	}
	begin := time.Now()
	for i := range 100 {
		await(t, begin.Add(time.Duration(i)*3*renew/100))
		for id, p := range proxies { // one a poll, one for all else; two where it sends two at once
			if n := p.connections(); n > want[id]+2 {
				fault("%s holds %d connections with %d long polls", id, n, want[id])
			}
		}
		for _, key := range []string{fmt.Sprintf("service/another/%d", i),
			fmt.Sprintf("service/%s/states/n%d", s.name, 3+i%5)} { // what other members say
			if _, err := kv.Put(&api.KVPair{Key: key, Value: fmt.Append(nil, i)}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(t, begin.Add(3*renew))
	for id, p := range proxies {
		testkit.Await(t, startLimit, "three renewals of "+id, func() string {
			if seen, _, _ := p.count(); renewals(seen) < 3 {
				return fmt.Sprintf("%d", renewals(seen))
			}
			return ""
		})
		testkit.Await(t, startLimit, "one connection beside the long polls of "+id, func() string {
			if n := p.connections(); n != want[id]+1 {
				return fmt.Sprintf("%d in all, not %d", n, want[id]+1)
			}
			return ""
		})
		seen, polls, highest := p.count()
		elapsed := time.Since(forgotten[id])
		if polls != want[id] || highest > want[id] {
			fault("%s holds %d long polls, %d at most, not %d", id, polls, highest, want[id])
		}
		if n, most := renewals(seen), int(elapsed/renew)+1; n > most {
			fault("%s renewed %d times in %v; one in %v makes %d at most", id, n, elapsed, renew,
				most)
		}
		others, confirmed, reports, looks := map[string]int{}, 0, 0, 0
		for _, r := range seen {
			switch {
			case strings.HasPrefix(r, "GET /v1/session/info/"):
				confirmed++
			case strings.HasPrefix(r, "PUT /v1/agent/check/update/"):
				reports++
			case strings.HasPrefix(r, "GET /v1/agent/service/"),
				strings.HasSuffix(r, "/control/drain/"+id):
				looks++
			case !strings.HasPrefix(r, renewal):
				others[r]++
			}
		}
		// The count may begin or end between a renewal and its confirmation.
		if n := renewals(seen); confirmed < n-1 || confirmed > n+1 {
			fault("%s renewed %d times and confirmed %d", id, n, confirmed)
		}
		// twelve in the check's TTL, which is 13/20 of the lease
		if most := int(elapsed*12*20/13/(3*renew)) + 1; reports > most {
			fault("%s reported %d times in %v; %d at most", id, reports, elapsed, most)
		}
		if most := 2 * (int(elapsed/time.Minute) + 1); looks > most {
			fault("%s looked %d times in %v at its instance or its drain; %d at most", id, looks,
				elapsed, most)
		}
		if len(others) > 0 {
			fault("%s asked for more than its renewal, while nothing changed for it: %v", id,
				others)
		}
	}
	return wrong
}

// renewal begins what a proxy writes down of a session's renewal.
const renewal = "PUT /v1/session/renew/"

func renewals(seen []string) int {
	n := 0
	for _, r := range seen {
		if strings.HasPrefix(r, renewal) {
			n++
		}
	}
	return n
}

// summarised waits until a member has said that so many items run there, and nothing else.
func (s *service) summarised(kv *api.KV, member string, running int) {
	s.t.Helper()
	testkit.Await(s.t, workLimit, "the summary of "+member, func() string {
		e, _, err := kv.Get("service/"+s.name+"/states/"+member, nil)
		if err != nil || e == nil {
			return fmt.Sprint("none: ", err)
		}
		if w, err := protocol.ParseWorkSummary(e.Value); err != nil || len(w.Counts) != 1 ||
			w.Counts[protocol.WorkRunning] != running {
			return fmt.Sprint(string(e.Value), err)
		}
		return ""
	})
}
