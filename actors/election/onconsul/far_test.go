package onconsul_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
)

// Whoever was far back when it last read the queue is not in a hurry to read it again when the
// leadership is free. It leads in its turn all the same, when those before it have gone.
func TestWhoWasFarBackLeadsInItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		quick := s.over(s.consul.RoundTripper())
		defer quick.Close()
		slow := s.slow()
		defer slow.Close()
		resigns := func(e *election.Election) {
			e.Resign()
			<-e.Done()
		}
		first := s.joins(quick, "first", 1)
		var others []*election.Election
		for range 10 {
			others = append(others, s.joins(quick, "other", 1))
		}
		far := s.joins(slow, "far", 1)
		for _, e := range others {
			resigns(e)
		}
		last := s.joins(quick, "last", 0)
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
			slow := s.slow()
			for _, c := range []*onconsul.Conn{dead, quick, slow} {
				defer c.Close()
			}
			var lost []*election.Election
			for range 10 {
				lost = append(lost, s.joins(dead, "lost", 1))
			}
			far, last := s.joins(slow, "far", 1), s.joins(quick, "last", 0)
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
			electiontest.Resign(far, last)
		})
	}
}
