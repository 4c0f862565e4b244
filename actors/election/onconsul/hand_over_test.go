package onconsul_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// calls notes which requests go by, but for the long polls and what keeps a session alive.
func calls(to http.RoundTripper) *transport.Recorder {
	return &transport.Recorder{To: to, Keep: func(r *http.Request) bool {
		return !transport.Poll(r) && !strings.Contains(r.URL.Path, "/session/") &&
			!strings.Contains(r.URL.Path, "/agent/")
	}}
}

func names(requests []*http.Request) (names []string) {
	for _, r := range requests {
		names = append(names, r.Method+" "+r.URL.Path)
	}
	return names
}

// A hand-over takes two writes, one of each side, and no read before either: as many as api.Lock.
func TestAHandOverTakesOneRequestOnEachSide(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		ways := [3]*transport.Recorder{}
		all := [3]*election.Election{}
		for i := range ways {
			ways[i] = calls(s.consul.RoundTripper())
			conn := s.over(ways[i])
			defer conn.Close()
			all[i] = nominated(t, conn, election.Config{Election: "e", Name: fmt.Sprint(i)})
			time.Sleep(time.Second)
		}
		for i := range all {
			time.Sleep(20 * time.Second)
			if role := all[i].State().Get().Role; role != election.Leading {
				t.Fatalf("%d is %v in its turn", i, role)
			}
			for _, w := range ways {
				w.Forget()
			}
			begin := time.Now()
			all[i].Resign()
			<-all[i].Done()
			synctest.Wait()
			if i+1 == len(all) {
				return
			}
			if all[i+1].State().Get().Role != election.Leading || time.Since(begin) != 0 {
				t.Errorf("%d does not lead at once, after %v", i+1, time.Since(begin))
			}
			if got := names(ways[i].Copies()); len(got) != 1 || got[0] != "PUT /v1/txn" {
				t.Errorf("%d asked for this to resign: %v", i, got)
			}
			// What it looks at afterwards is in nobody's way.
			if got := names(ways[i+1].Copies()); len(got) == 0 || got[0] != "PUT /v1/txn" {
				t.Errorf("%d asked for this to lead: %v", i+1, got)
			}
		}
	})
}

// The next one knows that it is the next before the leadership is free. Whoever comes later with a
// higher priority is before it all the same.
func TestWhoComesLaterWithAHigherPriorityLeadsFirst(t *testing.T) {
	if err := lateComers(t); err != nil {
		t.Error(err)
	}
}

func lateComers(t *testing.T) (err error) {
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
					err = fmt.Errorf("%v apart: one of priority %d leads, and one of %d is there",
						apart, left[leads], highest)
				}
				leads.Resign()
				<-leads.Done()
				delete(left, leads)
			}
		})
	}
	return err
}

// A leader gives its leadership up under the conditions that its own take has made true. If
// somebody else has written to its keys since, that is refused, and it still leads: it reads what
// is there.
func TestALeaderWhoseKeysWereTouchedGivesItsLeadershipUp(t *testing.T) {
	if err := touched(t); err != nil {
		t.Error(err)
	}
}

func touched(t *testing.T) (err error) {
	giveUp := map[string]func(*election.Election, *election.Election){
		"resigns": func(a, _ *election.Election) { a.Resign() },
		"makes way": func(_, b *election.Election) {
			if err := b.HandOver(context.Background(), "b"); err != nil {
				t.Error(err)
			}
		},
	}
	for _, key := range []string{"leader", "term"} {
		for how, do := range giveUp {
			bubble(t, func(t *testing.T, s *embedded) {
				conn := s.over(s.consul.RoundTripper())
				defer conn.Close()
				a := nominated(t, conn, election.Config{Election: "e", Name: "a",
					Lead: untilTold})
				time.Sleep(time.Second)
				b := nominated(t, conn, election.Config{Election: "e", Name: "b",
					Lead: untilTold})
				time.Sleep(time.Second)
				kv := s.consul.Client().KV()
				pair, _, _ := kv.Get(onconsul.DefaultPrefix+"e/state/"+key, nil)
				pair.Flags = 7 // who writes without the session leaves the lock as it is
				if _, err := kv.Put(pair, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				do(a, b)
				time.Sleep(20 * time.Second)
				if role := b.State().Get().Role; role != election.Leading {
					err = fmt.Errorf("somebody wrote to %s, and the leader %s: the next one is %v",
						key, how, role)
				}
				electiontest.Resign(a, b)
			})
		}
	}
	return err
}
