package onconsul_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// Whoever comes later with a higher priority leads before those who are nearer to Consul.
func TestWhoComesLaterWithAHigherPriorityLeadsFirst(t *testing.T) {
	for _, apart := range []time.Duration{0, time.Millisecond, time.Second} {
		bubble(t, func(t *testing.T, s *embedded) {
			quick := s.over(s.consul.RoundTripper())
			defer quick.Close()
			slow := s.slow()
			defer slow.Close()
			left := map[*election.Election]int{}
			for i, priority := range []int{9, 0, 5, 0, 5, 9, 7} {
				conn := quick
				if priority > 0 { // who is not next would be quicker
					conn = slow
				}
				e := nominated(t, conn, election.Config{Election: "e", Name: fmt.Sprint(i),
					Priority: priority})
				left[e] = priority
				if time.Sleep(apart); i == 0 {
					time.Sleep(time.Second)
				}
			}
			for len(left) > 0 {
				time.Sleep(time.Second)
				leads, highest := (*election.Election)(nil), 0
				for e, priority := range left {
					if highest = max(highest, priority); e.State().Get().Role == election.Leading {
						leads = e
					}
				}
				switch {
				case leads == nil:
					t.Fatalf("%v apart: nobody leads", apart)
				case left[leads] < highest:
					t.Errorf("%v apart: one of priority %d leads, and one of %d is there",
						apart, left[leads], highest)
				}
				leads.Resign()
				<-leads.Done()
				delete(left, leads)
			}
		})
	}
}
