package onzk_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/go-zookeeper/zk"
)

// A candidate is denied what it takes to lead, and to give its place up for that. Where its session
// is not given up either, as its connection is the host's own, or another leads over it, it tries
// again from time to time, and says once that it keeps its place. When it may again, it leads.
func TestACandidateThatMayNotMakeWayIsNotBusyWithIt(t *testing.T) {
	for what, kinds := range map[string][]uint32{
		"to lead":                {kindCommit},
		"to list the candidates": {kindList, kindCommit},
	} {
		for _, hosts := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the host's own connection: %v", what, hosts),
				func(t *testing.T) {
					bubble(t, func(t *testing.T, s *embedded) {
						mayNotMakeWay(t, s, kinds, hosts)
					})
				})
		}
	}
}

func mayNotMakeWay(t *testing.T, s *embedded, kinds []uint32, hosts bool) {
	one := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
	defer one.Close()
	first := s.nominate(one, "first")
	becomes(t, first, election.Leading)
	var log testkit.Output
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	server := &denying{Way: s.zoo.Way(devzookeeper.Weather{}), kinds: kinds}
	var two *onzk.Conn
	if hosts {
		d := &onzk.Dialer{Base: server.Dial}
		client, events, err := zk.Connect(addresses, onzk.DefaultSessionTimeout,
			zk.WithDialer(d.Dial), zk.WithLogInfo(false))
		must(t, err)
		defer client.Close()
		two, err = onzk.New(client, events, d, onzk.Config{Logger: s.log})
		must(t, err)
	} else {
		two = s.connect(onzk.Config{Dial: server.Dial})
		other := s.nominateIn("other", two, "denied")
		becomes(t, other, election.Leading)
		defer electiontest.Resign(other)
	}
	defer two.Close()
	denied := s.nominate(two, "denied")
	becomes(t, denied, election.Following)
	path := "/demo"
	server.path.Store(&path)
	first.Resign()
	time.Sleep(onzk.DefaultSessionTimeout)
	asked := s.zoo.Requests()
	time.Sleep(time.Minute)
	if n := s.zoo.Requests() - asked; n > 1000 {
		t.Errorf("%d requests in a minute", n)
	}
	if kept := strings.Count(log.String(), "place-kept"); kept != 1 ||
		strings.Contains(log.String(), "place-given-up") {
		t.Errorf("%d lines say that it keeps its place:\n%.500s", kept, log.String())
	}
	server.path.Store(nil)
	becomes(t, denied, election.Leading)
	electiontest.Resign(first, denied)
}
