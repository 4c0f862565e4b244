//go:build coordd_elections

package onzk_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realzookeeper"
)

// A candidate that died while it waited is in nobody's way once its departure was said.
func TestADeadCandidateThatHasDepartedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := begin(t, crowdTimeout)
	a, _ := nominate(t, s.connect(t, &wire{}), "a")
	wait(t, a, election.Leading)
	w := &wire{}
	dead := s.connect(t, w)
	b, _ := nominate(t, dead, "b")
	wait(t, b, election.Following)
	c, _ := nominate(t, s.connect(t, &wire{}), "c")
	wait(t, c, election.Following)
	session, _ := dead.Credentials()
	w.Cut()
	t.Cleanup(w.Mend)
	if led, err := onzk.Depart(t.Context(), s.config(&wire{}), "demo",
		fmt.Sprintf("0x%x", uint64(session))); led || err != nil {
		t.Errorf("the departure of one that waited: %v, %v", led, err)
	}
	a.Resign()
	wait(t, c, election.Leading)
	answer, err := s.server.Ask(t.Context(), "dump")
	if err != nil || !strings.Contains(answer, fmt.Sprintf("0x%x", uint64(session))) {
		t.Errorf("c leads when the dead one's session is over (%v):\n%s", err, answer)
	}
}

// The client sends a request that waited for a connection in whatever session comes next.
func TestAReleaseThatArrivesLateMissesTheNextElection(t *testing.T) {
	t.Parallel()
	s := begin(t, crowdTimeout)
	s.delay = -1
	leader := func(id string) (*onzk.Conn, election.Backend, uint64) {
		c := s.connect(t, &wire{})
		b, err := c.Open("demo")
		must(t, err)
		if _, err := b.Join(t.Context(), election.Candidate{ID: id, Name: id}); err != nil {
			t.Fatal(err)
		}
		token, _, err := b.Take(t.Context())
		if token == 0 || err != nil {
			t.Fatalf("%s does not lead: %v", id, err)
		}
		return c, b, token
	}
	first, a, _ := leader("a")
	late, err := onzk.GivingUp(a, false)
	must(t, err)
	first.Close()
	c := s.connect(t, &wire{})
	operator, err := c.Open("demo")
	must(t, err)
	must(t, operator.Delete(t.Context()))
	_, _, token := leader("b")
	if _, err := c.ZK().Multi(late...); err == nil {
		t.Error("the release of a leader of the election before is carried out in this one")
	}
	if _, stat, err := c.ZK().Get(s.root + "/demo/leader"); err != nil ||
		uint64(stat.Czxid) != token {
		t.Errorf("b led with token %d, and the leader's node is of %+v (%v)", token, stat, err)
	}
}

// A candidate leaves, and its server does not know yet that its last take has won.
func TestATakeThatArrivesWhileItsCandidateLeavesIsGivenUp(t *testing.T) {
	t.Parallel()
	s := begin(t, crowdTimeout)
	c := s.connect(t, &wire{})
	b, err := c.Open("demo")
	must(t, err)
	if _, err := b.Join(t.Context(), election.Candidate{ID: "a", Name: "a"}); err != nil {
		t.Fatal(err)
	}
	leaves, err := onzk.GivingUp(b, true)
	must(t, err)
	if token, _, err := b.Take(t.Context()); token == 0 || err != nil {
		t.Fatalf("it does not lead: %v", err)
	}
	if _, err := c.ZK().Multi(leaves...); err == nil {
		t.Error("it has left, and its session still leads")
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if exists, _, err := c.ZK().Exists(s.root + "/demo/leader"); exists || err != nil {
		t.Errorf("it has left, and the leader's node is there: %v, %v", exists, err)
	}
}

// The departure of a dead leader waits between two of its requests. By the time that it goes on,
// that leader's session has expired and another leads.
func TestADepartureThatComesLateMissesTheNextLeader(t *testing.T) {
	t.Parallel()
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	for _, request := range []string{"/term", "/leader", "multi"} {
		t.Run(strings.TrimPrefix(request, "/"), func(t *testing.T) {
			t.Parallel()
			s := &store{t: t, server: server, timeout: sessionTimeout, root: rootOf(t), delay: -1}
			w, late := &wire{}, &wire{}
			dead := s.connect(t, w)
			a, _ := nominate(t, dead, "a")
			wait(t, a, election.Leading)
			b, _ := nominate(t, s.connect(t, &wire{}), "b")
			wait(t, b, election.Following)
			session, _ := dead.Credentials()
			w.Cut()
			t.Cleanup(w.Mend)
			want := []byte(s.root + "/demo" + request)
			if request == "multi" { // its first part sets the term to nothing
				want = append([]byte(s.root+"/demo/term"), 0xff, 0xff, 0xff, 0xff)
			}
			held := late.Hold(func(sent []byte) bool { return bytes.Contains(sent, want) })
			departed, cfg := make(chan error, 1), s.config(late)
			cfg.SessionTimeout *= 8 // its own session outlives the dead one's by more
			go func() {
				_, err := onzk.Depart(t.Context(), cfg, "demo",
					fmt.Sprintf("0x%x", uint64(session)))
				departed <- err
			}()
			soon(t, held, "the departure did not ask that")
			token := wait(t, b, election.Leading).Token
			late.Free()
			if err := <-departed; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if now := b.State().Get(); now.Role != election.Leading || now.Token != token {
				t.Errorf("the departure of the leader before has deposed this one: %v", now)
			}
		})
	}
}
