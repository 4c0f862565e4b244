package onconsul_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// ordersHandOver picks the requests that order a hand-over.
func ordersHandOver(r *http.Request) bool {
	return transport.TxnWith(`state/election"`, `"cas"`, `"check-session"`)(r) && !takes(r)
}

// loses connects by a way that loses the answer to the next hand-over while lose is set, and the
// hand-over too unless it arrives.
func (s *embedded) loses(lose *atomic.Bool, arrives bool) *onconsul.Conn {
	consul := s.consul.RoundTripper()
	return s.over(transport.When(consul, func(r *http.Request) bool {
		return ordersHandOver(r) && lose.CompareAndSwap(true, false)
	}, func(r *http.Request) (*http.Response, error) {
		if arrives {
			transport.Again(consul, r)
		}
		return transport.Hang(r)
	}))
}

// The answer to a hand-over is lost, or the hand-over itself. It is tried again when others have
// given orders.
func TestAHandOverThatIsTriedAgainUndoesNothingLater(t *testing.T) {
	for name, c := range map[string]struct {
		arrives bool
		then    string // whom another operator hands over to meanwhile
		busy    bool   // the leader takes its time to make way
		leads   string // in the end
	}{
		"after the next leader was asked, too":  {arrives: true, then: "c", leads: "c"},
		"after another order":                   {arrives: true, busy: true, then: "c", leads: "c"},
		"which was lost, after another order":   {busy: true, then: "c", leads: "c"},
		"which was lost, after another leader":  {then: "c", leads: "c"},
		"which was lost, and nothing came then": {leads: "b"},
		"which nobody needs":                    {arrives: true, leads: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var lose atomic.Bool
				way, plain := s.loses(&lose, c.arrives), s.over(s.consul.RoundTripper())
				a := nominated(t, plain, election.Config{Election: contested, Name: "a",
					Logger: s.log})
				time.Sleep(time.Second)
				all := map[string]*election.Election{"b": s.joins(plain, "b", 0),
					"c": s.joins(plain, "c", 0)}
				operator, err := election.New(way, election.Config{Election: contested,
					Logger: s.log})
				must(t, err)
				lose.Store(true)
				heard := make(chan error)
				go func() { heard <- operator.HandOver(t.Context(), "b") }()
				time.Sleep(time.Second)
				if !c.busy {
					a.Drained()
					time.Sleep(time.Second / 2)
				}
				if c.then != "" {
					must(t, all["c"].HandOver(t.Context(), c.then))
					time.Sleep(time.Second / 2)
					a.Drained()
				}
				if err := <-heard; err != nil {
					t.Errorf("the operator hears of %v", err)
				}
				time.Sleep(time.Second)
				a.Drained()
				time.Sleep(time.Second)
				if now := all[c.leads].State().Get(); now.Role != election.Leading {
					t.Errorf("%s, who was asked for last, is told %v", c.leads, now)
				}
				electiontest.Resign(a, all["b"], all["c"])
				way.Close()
				plain.Close()
			})
		})
	}
}
