package actors_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A leader has waited for a predecessor's lease once. In a later term it waits again, also when the
// answer to its take is lost: what it has waited for before says nothing of who led since.
func TestLeadWaitsAlsoWhenTheAnswerToTheTakeIsLost(t *testing.T) {
	run(t, func(c *cluster) {
		l := &transport.Astray{To: c.consul.RoundTripper()}
		c.start("n1")
		c.awaitLead(5 * time.Second)
		c.start("n2")
		c.members["n2"].net.Via(l)
		time.Sleep(5 * time.Second)
		for _, old := range []string{"n1", "n2"} {
			c.blind(old)
			c.awaitLead(15*time.Second, old)
			c.members[old].net.Cut(nil)
			time.Sleep(30 * time.Second)
		}
		if leads := c.leader(); leads != "n1" {
			t.Fatalf("%s leads", leads)
		}
		l.Lose(1, transport.TxnWith(`"Verb":"lock","Key":"service/demo/leader"`))
		c.blind("n1")
		if _, took := c.awaitLead(15*time.Second, "n1"); took < 9*time.Second {
			t.Errorf("Lead began after %v", took)
		}
		if l.Lost() != 1 {
			t.Fatalf("%d answers were lost", l.Lost())
		}
	})
}

// A process that has registered under an id before another one did waits for that one's lease, also
// when the answer to its registration is lost.
func TestInheritedItemsWaitAlsoWhenTheAnswerToTheRegistrationIsLost(t *testing.T) {
	run(t, func(c *cluster) {
		l := &transport.Astray{To: c.consul.RoundTripper()}
		second := func(cfg *actors.Config) {
			p := *cfg.Process
			p.Host, p.BootID = "elsewhere", "elsewhere"
			cfg.Process = &p
		}
		c.addWork(c.items(2)...)
		x := c.start("n1")
		c.await("at work", 20*time.Second, c.balanced(2))
		ends := func(m *member) {
			session := m.c.Session().Get().ID
			m.net.Cut(errors.New("connection refused"))
			if err := c.store.DestroySession(c.t.Context(), session); err != nil {
				t.Fatal(err)
			}
		}
		all := []*member{x}
		defer func() {
			for _, m := range all {
				m.cancel()
				<-m.done
			}
		}()
		// p registers within x's lease, and loses its session before that is over.
		ends(x)
		p := c.start("n1", second)
		all = append(all, p)
		p.net.Via(l)
		c.await("registered", 5*time.Second, func() bool {
			return p.c.Membership().Get().Session != ""
		})
		time.Sleep(2 * time.Second)
		ends(p)
		// q comes between.
		q := c.start("n1")
		all = append(all, q)
		c.await("q works", 40*time.Second, func() bool { return c.startsOf(c.items(1)[0]) > 1 })
		l.Lose(1, transport.TxnWith(`"Verb":"lock","Key":"service/demo/members/n1"`))
		ends(q)
		p.net.Cut(nil)
		time.Sleep(25 * time.Second)
		if l.Lost() != 1 {
			t.Fatalf("%d answers were lost", l.Lost())
		}
	})
}
