package onconsul_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
)

// The others hold back for the candidate of a hand-over, and no longer than it is one.
func TestNobodyHoldsBackForACandidateThatIsNoneAnyMore(t *testing.T) {
	for candidates, most := range map[int]time.Duration{1: 10 * time.Second, 20: 12 * time.Second} {
		if took := heldBack(t, candidates); took > most {
			t.Errorf("with %d before it the one that is left leads after %v; their check lasts 6.5s",
				candidates, took)
		}
	}
}

// heldBack has a leader hand over to one of so many candidates, which are all lost in that moment.
// It returns how long it takes until the one candidate behind them leads.
func heldBack(t *testing.T, candidates int) (took time.Duration) {
	bubble(t, func(t *testing.T, s *embedded) {
		way := &wire{next: s.consul.RoundTripper(), server: s}
		conn, dead := s.over(s.consul.RoundTripper()), s.over(way)
		operator := s.with(onconsul.Config{HoldBack: time.Minute}, s.consul.RoundTripper())
		for _, c := range []*onconsul.Conn{conn, dead, operator} {
			defer c.Close()
		}
		first := s.joins(conn, "first", 0)
		var lost []*election.Election
		for i := range candidates {
			lost = append(lost, s.joins(dead, fmt.Sprint("lost", i), 0))
		}
		left := s.joins(conn, "left", 0)
		orders, err := election.New(operator, election.Config{Election: contested, Logger: s.log})
		must(t, err)
		way.sever()
		at := time.Now()
		must(t, orders.HandOver(t.Context(), "lost0"))
		first.Resign()
		<-first.Done()
		if _, err := left.State().Wait(t.Context(), leads); err != nil {
			t.Fatal(err)
		}
		took = time.Since(at)
		way.mend()
		for _, e := range lost {
			<-e.Done()
		}
		left.Resign()
		<-left.Done()
	})
	return took
}
