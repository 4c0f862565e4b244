package onconsul_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A take comes twice. The first copy wins. Before the second copy comes the winner's session is
// ended, and the second copy is refused. So the candidate hears of a refusal only, and its take was
// in force for a while all the same: a look finds that.
func TestATakeThatIsRefusedMayHaveBeenInForceBefore(t *testing.T) {
	var judge *electiontest.Judge
	synctest.Test(t, func(t *testing.T) {
		judge = electiontest.NewJudge()
		s := newEmbedded(t)
		defer s.consul.Close()
		consul := s.consul.RoundTripper()
		var first sync.Once
		one := s.over(transport.When(consul, takes,
			func(r *http.Request) (*http.Response, error) {
				first.Do(func() {
					transport.Again(consul, r)
					time.Sleep(time.Second)
				})
				return consul.RoundTrip(r)
			}))
		defer one.Close()
		two := s.over(consul)
		defer two.Close()
		a := nominated(t, judge.Record(one), election.Config{Election: contested, Name: "a"})
		time.Sleep(500 * time.Millisecond)
		judge.Look(contested, s.look)
		if role := a.State().Get().Role; role == election.Leading {
			t.Errorf("it has heard that it has won")
		}
		if _, err := s.consul.Client().Session().Destroy(one.Contact().Get().Session,
			nil); err != nil {
			t.Fatal(err)
		}
		b := nominated(t, judge.Record(two), election.Config{Election: contested, Name: "b"})
		time.Sleep(30 * time.Second)
		judge.Look(contested, s.look)
		if role := b.State().Get().Role; role != election.Leading {
			t.Errorf("the other one is %v in its turn", role)
		}
		b.Resign()
		<-b.Done()
		<-a.Done()
	})
	if n := judge.Counted(); n["look"] != 2 || n["take"] != 1 || n["take of unknown outcome"] != 0 {
		t.Errorf("this was another history: %v", n)
	}
	if err := judge.Verdict(time.Minute); err != nil {
		t.Error(err)
	}
}
