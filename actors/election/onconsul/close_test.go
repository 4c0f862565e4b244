package onconsul_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
)

// Without a Lead function only the host can say that its duty has ended. Close does not.
func TestALeaderWhoseConnectionIsClosedKeepsItsRecordUntilItSaysThatItHasStopped(t *testing.T) {
	for name, says := range map[string]func(*election.Election){
		"never":      func(*election.Election) {},
		"by Resign":  (*election.Election).Resign,
		"by Drained": (*election.Election).Drained,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bound, _ := onconsul.Config{}.TakeOver() // its session is left to end by itself
				s := newEmbedded(t)
				defer s.consul.Close()
				one, two := s.over(s.consul.RoundTripper()), s.over(s.consul.RoundTripper())
				defer two.Close()
				a := nominated(t, one, election.Config{Election: contested, Name: "a",
					Logger: s.log})
				time.Sleep(time.Second)
				b := nominated(t, two, election.Config{Election: contested, Name: "b",
					Lead: untilTold, Logger: s.log})
				time.Sleep(time.Second)
				led := a.State().Get()
				if led.Role != election.Leading {
					t.Fatalf("a is told %v", led)
				}
				one.Close()
				if time.Sleep(time.Second); b.State().Get().Role == election.Leading {
					t.Fatalf("b leads, and a has not said that its duty has ended, but was told %v",
						a.State().Get())
				}
				says(a)
				said := time.Now()
				if _, err := b.State().Wait(t.Context(), func(s election.Status) bool {
					return s.Role == election.Leading
				}); err != nil {
					t.Fatal(err)
				}
				switch now := time.Now(); {
				case name == "never" && now.Before(led.Until):
					t.Errorf("b leads %v before the lease of a is over", led.Until.Sub(now))
				case name == "never" && now.Sub(said) > bound,
					name != "never" && now.Sub(said) > 100*time.Millisecond:
					t.Errorf("b leads only %v after a has stopped", now.Sub(said))
				}
				<-a.Done()
				b.Resign()
				<-b.Done()
			})
		})
	}
}
