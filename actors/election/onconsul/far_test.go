package onconsul_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
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
