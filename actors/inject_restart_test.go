package actors_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
)

func TestAnActorThatFailsAtAMessageComesBackAndDisturbsNobody(t *testing.T) {
	eachFailure(t, atMessage, 4, []failure{panics, errs, exits}, comesBack)
}

// At a request that Consul has answered the actor dies without knowing what it
// has done; at one that was not sent, believing perhaps that it has done it.
func TestAnActorThatFailsAtARequestComesBackAndDisturbsNobody(t *testing.T) {
	for _, where := range []place{beforeRequest, afterRequest} {
		eachFailure(t, where, 2, []failure{panics, exits}, comesBack)
	}
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
		if l := n1.c.Leadership().Get(); l.Role != facts.Leading {
			t.Errorf("n1 has lost the leadership: %+v", l)
		}
		failed := slices.Index(termActors, s.actor)
		for name, r := range incarnations(n1.c.Report()) {
			want := 1
			if i := slices.Index(termActors, name); name == s.actor || failed >= 0 && i > failed {
				// the term's tree restarts those who plan on what the failed one had read
				want = 2
			}
			// The assigner asks what its token allows in a goroutine beside its own.
			fitness := name == "assigner" && s.where != atMessage && s.at == 1 &&
				s.how == exits
			if name == s.actor && fitness {
				want = 1
			}
			if r.Incarnation != want {
				t.Errorf("%s is in incarnation %d, want %d", name, r.Incarnation, want)
			}
			if name == s.actor && r.Incarnation > 1 && (r.LastCause == nil ||
				r.LastCause.Kind != s.how.kind()) {
				t.Errorf("%s: its last cause is %v, want %s", name, r.LastCause, s.how.kind())
			}
		}
		c.stop("n1")
		c.await("all at n2", 5*time.Second, c.balanced(total+1))
	})
}

// besides tells whether an actor makes such a request in a goroutine beside its own: renewals with
// their confirmations, looks whether a session stands, and reports to a check. A transport that
// panics there ends the process, so nothing is made to fail at them.
func besides(request string) bool {
	return strings.HasPrefix(request, "/v1/session/renew/") ||
		strings.HasPrefix(request, "/v1/session/info/") ||
		strings.HasPrefix(request, "/v1/agent/check/update/")
}
