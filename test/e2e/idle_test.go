//go:build linux

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/test/realconsul"
)

// Neither a member with work nor the leader asks for anything while nothing changes in their service, however much
// does elsewhere in the same Consul.
func TestAnIdleMemberHoldsThreeLongPollsAndSendsOnlyItsRenewal(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{})
	s := newService(t, consul.Addr())
	proxies := map[string]*proxy{}
	for _, id := range []string{"n1", "n2"} {
		proxies[id] = newProxy(t, consul.Addr())
		s.start(id, "--consul", proxies[id].addr)
		eventually(t, startLimit, "it is there", func() string { return s.now().unlike(len(proxies), 0) })
	}
	s.share(10)
	if leader := s.now().Leader.ID; leader != "n1" {
		t.Fatalf("%s leads, not the only member there was", leader)
	}

	want := map[string]int{"n1": 7, "n2": 3}
	for id, p := range proxies {
		eventually(t, startLimit, "the long polls of "+id, func() string {
			if _, polls, _ := p.count(); polls != want[id] {
				return fmt.Sprintf("%d, not %d", polls, want[id])
			}
			return ""
		})
		p.forget()
	}
	kv := consul.Client().KV()
	begin := time.Now()
	for i := range 100 {
		await(t, begin.Add(time.Duration(i)*3*renew/100))
		if _, err := kv.Put(&api.KVPair{Key: fmt.Sprintf("service/another/%d", i), Value: []byte("x")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	await(t, begin.Add(3*renew))
	for id, p := range proxies {
		seen, polls, highest := p.count()
		if polls != want[id] || highest > want[id] {
			t.Errorf("%s holds %d long polls, %d at most, not %d", id, polls, highest, want[id])
		}
		renewals := 0
		others := map[string]int{}
		for _, r := range seen {
			if strings.HasPrefix(r, "PUT /v1/session/renew/") {
				renewals++
			} else {
				others[r]++
			}
		}
		if renewals < 2 || renewals > 4 {
			t.Errorf("%s renewed %d times in three times the time between renewals", id, renewals)
		}
		if len(others) > 0 {
			t.Errorf("%s asked for more than its renewal, while nothing changed for it: %v", id, others)
		}
	}
}
