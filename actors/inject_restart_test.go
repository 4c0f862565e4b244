package actors_test

import (
	"slices"
	"testing"
	"time"
)

func TestAnActorThatFailsComesBackAndDisturbsNobody(t *testing.T) {
	eachFailure(t, atMessage, 6, []failure{panics, errs, exits}, comesBack)
}

func comesBack(t *testing.T, s *saboteur) {
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		n1 := c.sabotaged(s)
		total := c.episode()
		c.await("all shared out", 20*time.Second, c.balanced(total))
		c.addWork("last") // whoever failed must still hear of news
		c.await("the last one", 20*time.Second, c.balanced(total+1))
		c.await("settled", 20*time.Second, c.settled)
		c.consistent()
		if !s.didFire() {
			return
		}
		failed := slices.Index(officeActors, s.actor)
		for name, r := range incarnations(n1.c.Report()) {
			want := 1
			if i := slices.Index(officeActors, name); name == s.actor || failed >= 0 && i > failed {
				want = 2
			}
			if r.Incarnation != want {
				t.Errorf("%s is in incarnation %d, want %d", name, r.Incarnation, want)
			}
			if name == s.actor && (r.LastCause == nil || r.LastCause.Kind != s.how.kind()) {
				t.Errorf("%s: its last cause is %v, want %s", name, r.LastCause, s.how.kind())
			}
		}
		c.stop("n1")
		c.await("all at n2", 5*time.Second, c.balanced(total+1))
	})
}
