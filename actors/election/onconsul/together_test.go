package onconsul_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
)

// Whoever is lost together with the leader is no candidate any more when its lock-delay is over.
func TestALeaderThatIsLostWithTheNextOnesInLineIsSucceededWithinTheBound(t *testing.T) {
	for name, cfg := range map[string]onconsul.Config{
		"defaults":      {},
		"a short lease": {Lease: 3 * time.Second, CheckTTL: time.Second},
		"no check":      {CheckTTL: onconsul.NoCheck},
	} {
		for n := range 4 {
			synctest.Test(t, func(t *testing.T) {
				s := newEmbedded(t)
				defer s.consul.Close()
				way := &wire{next: s.consul.RoundTripper(), server: s}
				var lost []*election.Election
				for i := range 6 {
					conn := s.with(cfg, way)
					defer conn.Close()
					e := nominated(t, conn, election.Config{Election: contested,
						Name: string(rune('a' + i)), Lead: untilTold, Logger: s.log})
					lost = append(lost, e)
					time.Sleep(time.Second + time.Duration(i*130)*time.Millisecond)
				}
				conn := s.with(cfg, s.consul.RoundTripper())
				defer conn.Close()
				left := nominated(t, conn, election.Config{Election: contested, Name: "left",
					Lead: untilTold, Logger: s.log})
				time.Sleep(time.Minute + time.Duration(n)*370*time.Millisecond)
				way.sever()
				at := time.Now()
				if _, err := left.State().Wait(t.Context(), leads); err != nil {
					t.Fatal(err)
				}
				if bound, _ := cfg.TakeOver(); time.Since(at) > bound {
					t.Errorf("%s: the one that is left leads after %v, within %v", name,
						time.Since(at), bound)
				}
				way.mend()
				for _, e := range lost {
					<-e.Done()
				}
				left.Resign()
				<-left.Done()
			})
		}
	}
}

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
