package onzk_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A follower that hears nothing more is told so when its connection's lease is over, though none of
// its readings fails: there is none, or it waits for a connection. It goes on as soon as it can.
func TestAFollowerKnowsNoLeaderWhileZooKeeperIsNotHeardOf(t *testing.T) {
	for _, refused := range []bool{true, false} {
		for servers := range threeAddresses {
			name := "cut off"
			if refused {
				name = "refused"
			}
			t.Run(fmt.Sprint(name, servers+1), func(t *testing.T) {
				if refused && racing {
					t.Skip("the client races with itself: see racing")
				}
				bubble(t, func(t *testing.T, s *embedded) {
					unheardOf(t, s, threeAddresses[:servers+1], refused)
				})
			})
		}
	}
}

func unheardOf(t *testing.T, s *embedded, servers []string, refused bool) {
	const digest = "coordd:secret"
	one := s.connect(onzk.Config{Digest: digest, Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
	defer one.Close()
	leader := s.nominate(one, "leader")
	becomes(t, leader, election.Leading)
	server := &refusing{Way: s.zoo.Way(devzookeeper.Weather{})}
	two := s.connect(onzk.Config{Digest: digest, Dial: server.Dial, Servers: servers})
	defer two.Close()
	follower := s.operator(two)
	_, err := follower.Follow(t.Context())
	must(t, err)
	becomes(t, follower, election.Observing)
	time.Sleep(time.Minute)
	if refused {
		server.refuses.Store(true)
		server.Mend(true) // breaks the connections
	} else {
		server.Sever()
	}
	electiontest.Resign(leader)
	for range 10 {
		time.Sleep(onzk.DefaultSessionTimeout + time.Second)
		if now := follower.State().Get(); now.Role != election.Uncertain {
			t.Fatalf("the follower is told %v", now)
		}
	}
	server.refuses.Store(false)
	server.Mend(true)
	next := s.nominate(one, "next")
	token := becomes(t, next, election.Leading).Token
	time.Sleep(15 * time.Second)
	if now := follower.State().Get(); now.Role != election.Observing || now.Token != token {
		t.Errorf("the follower is told %v", now)
	}
	electiontest.Resign(next, follower)
}
