package onconsul_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// joins takes part in the election, and gives the others a second to see it.
func (s *embedded) joins(t *testing.T, over *onconsul.Conn, name string,
	priority int) *election.Election {
	t.Helper()
	e := nominated(t, over, election.Config{Election: contested, Name: name, Priority: priority,
		Lead: untilTold, Logger: s.log})
	time.Sleep(time.Second)
	return e
}

// Whoever was far back when it last read the queue is not in a hurry to read it again when the
// leadership is free. It leads in its turn all the same, when those before it have gone.
func TestWhoWasFarBackLeadsInItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		quick := s.over(s.consul.RoundTripper())
		defer quick.Close()
		slow := s.over(transport.Slow(s.consul.RoundTripper(), func() time.Duration {
			return 20 * time.Millisecond
		}))
		defer slow.Close()
		joins := func(over *onconsul.Conn, name string, priority int) *election.Election {
			return s.joins(t, over, name, priority)
		}
		resigns := func(e *election.Election) {
			e.Resign()
			<-e.Done()
		}
		first := joins(quick, "first", 1)
		var others []*election.Election
		for range 10 {
			others = append(others, joins(quick, "other", 1))
		}
		far := joins(slow, "far", 1)
		for _, e := range others {
			resigns(e)
		}
		last := joins(quick, "last", 0)
		time.Sleep(time.Minute)
		resigns(first)
		time.Sleep(400 * time.Millisecond)
		if role := far.State().Get().Role; role != election.Leading {
			t.Errorf("the one of priority 1 is %v after 400ms", role)
		}
		time.Sleep(10 * time.Second)
		if role := last.State().Get().Role; role == election.Leading {
			t.Error("the one of priority 0 leads")
		}
		resigns(far)
		resigns(last)
	})
}

// So it does when those before it were lost with the leader, after the lock-delay.
func TestWhoWasFarBackLeadsInItsTurnAfterALostLeader(t *testing.T) {
	for n := range 3 {
		bubble(t, func(t *testing.T, s *embedded) {
			way := &wire{next: s.consul.RoundTripper(), server: s}
			dead, quick := s.over(way), s.over(s.consul.RoundTripper())
			slow := s.over(transport.Slow(s.consul.RoundTripper(), func() time.Duration {
				return 20 * time.Millisecond
			}))
			for _, c := range []*onconsul.Conn{dead, quick, slow} {
				defer c.Close()
			}
			var lost []*election.Election
			for range 10 {
				lost = append(lost, s.joins(t, dead, "lost", 1))
			}
			far, last := s.joins(t, slow, "far", 1), s.joins(t, quick, "last", 0)
			time.Sleep(time.Minute + time.Duration(n)*610*time.Millisecond)
			way.sever()
			bound, _ := onconsul.Config{}.TakeOver()
			time.Sleep(bound)
			if role := far.State().Get().Role; role != election.Leading {
				t.Errorf("the one of priority 1 is %v, that of priority 0 is %v", role,
					last.State().Get().Role)
			}
			way.mend()
			for _, e := range lost {
				<-e.Done()
			}
			for _, e := range []*election.Election{far, last} {
				e.Resign()
				<-e.Done()
			}
		})
	}
}

// Nobody holds back for a candidate that is none any more, also who is far back.
func TestNobodyFarBackHoldsBackForACandidateThatIsNoneAnyMore(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		way := &wire{next: s.consul.RoundTripper(), server: s}
		conn, dead := s.over(s.consul.RoundTripper()), s.over(way)
		operator := s.with(onconsul.Config{HoldBack: time.Minute}, s.consul.RoundTripper())
		for _, c := range []*onconsul.Conn{conn, dead, operator} {
			defer c.Close()
		}
		stands := func(over *onconsul.Conn, name string) *election.Election {
			e := nominated(t, over, election.Config{Election: contested, Name: name,
				Lead: untilTold, Logger: s.log})
			time.Sleep(time.Second)
			return e
		}
		first := stands(conn, "first")
		var lost []*election.Election
		for i := range 20 {
			lost = append(lost, stands(dead, fmt.Sprint("lost", i)))
		}
		left := stands(conn, "left")
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
		if took := time.Since(at); took > 12*time.Second {
			t.Errorf("the one that is left leads after %v; the check of the others lasts 6.5s", took)
		}
		way.mend()
		for _, e := range lost {
			<-e.Done()
		}
		left.Resign()
		<-left.Done()
	})
}
