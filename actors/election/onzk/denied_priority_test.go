package onzk_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// Two candidates of a higher priority than another's are denied to lead. One that has made way is
// behind all others whatever its priority, or it would be the next one's turn to make way for it.
func TestAllWhoAreDeniedToLeadMakeWayForOneWhoIsNot(t *testing.T) {
	const bound = 2 * (onzk.DefaultSessionTimeout + 3*time.Second)
	for _, c := range []struct {
		name, path string
		kinds      []uint32
	}{{"to lead", "/demo/leader", nil}, {"to list", "/demo", []uint32{kindList}}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				one := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer one.Close()
				first := s.nominate(one, "first")
				becomes(t, first, election.Leading)
				var denied []*election.Election
				var servers []*denying
				for i := range 2 {
					server := &denying{Way: s.zoo.Way(devzookeeper.Weather{}), kinds: c.kinds}
					conn := s.connect(onzk.Config{Dial: server.Dial})
					defer conn.Close()
					denied = append(denied, s.stand(conn, election.Config{Priority: 10,
						Name: fmt.Sprint("denied", i)}))
					becomes(t, denied[i], election.Following)
					servers = append(servers, server)
				}
				last := s.nominate(one, "last")
				becomes(t, last, election.Following)
				for _, server := range servers {
					server.path.Store(&c.path)
				}
				first.Resign()
				begin := time.Now()
				becomes(t, last, election.Leading)
				if took := time.Since(begin); took > bound {
					t.Errorf("the one that may lead does so after %v", took)
				}
				time.Sleep(time.Minute)
				for _, server := range servers {
					server.path.Store(nil)
				}
				electiontest.Resign(first, last)
				time.Sleep(time.Minute)
				if a, b := denied[0].State().Get(), denied[1].State().Get(); (a.Role !=
					election.Leading) == (b.Role != election.Leading) {
					t.Errorf("when they may lead again, and nobody else is there, they are %v, %v",
						a, b)
				}
				electiontest.Resign(denied...)
			})
		})
	}
}

// Its priority counts again in its next place after it has led.
func TestThePriorityOfOneThatMadeWayCountsAgainAfterItHasLed(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		server := &denying{Way: s.zoo.Way(devzookeeper.Weather{})}
		conn := s.connect(onzk.Config{Dial: server.Dial})
		defer conn.Close()
		base := onzk.DefaultRoot + "/demo"
		stands := func(priority string) {
			t.Helper()
			var nodes []string
			for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Second / 10) {
				nodes = slices.Collect(maps.Keys(s.zoo.Nodes(base)))
				if slices.ContainsFunc(nodes, func(node string) bool {
					return strings.Contains(node, "-p"+priority+"-n")
				}) {
					return
				}
			}
			t.Errorf("no place has the priority %s: %v", priority, nodes)
		}
		leader := "/demo/leader"
		server.path.Store(&leader)
		e := s.stand(conn, election.Config{Priority: 10, Name: "denied"})
		stands("-2147483648")
		server.path.Store(nil)
		becomes(t, e, election.Leading)
		for node := range s.zoo.Nodes(base) {
			if strings.HasPrefix(node, "_c_") {
				s.zoo.Remove(base + "/" + node)
			}
		}
		stands("10")
		electiontest.Resign(e)
	})
}
