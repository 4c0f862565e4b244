package simulation_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

// anyTwice are the rates at which requests arrive a second time; in the profile doubled it is the
// last.
var anyTwice = []float64{0.01, 0.05, 0.2, 0.5}

// rates draws what is with all requests, by dice of its own.
func (s *settings) rates(profile string, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 6))
	s.twice, s.past = anyTwice[dice.IntN(len(anyTwice))], anyPast[dice.IntN(len(anyPast))]
	if profile == "doubled" {
		s.twice = anyTwice[len(anyTwice)-1]
	}
	s.clocks(profile, seed)
}

// twice lets a request that is not a mere read arrive a second time, whatever becomes of its
// sender: as when a proxy tries again, or a connection dies. Nobody hears the second answer. Most
// copies arrive within a minute, every fourth at any later moment; when the faults end, what is
// still on its way arrives.
func (l *link) twice(r *request) {
	// Dice of its own: the others fall as they did.
	rnd := rand.New(rand.NewPCG(l.w.plan.seed+1<<40, hash(l.p.name())+r.number))
	if r.Method == http.MethodGet || l.w.calm.Load() || rnd.Float64() >= l.w.plan.settings.twice {
		return
	}
	later := time.Duration(rnd.Float64() * rnd.Float64() * float64(time.Minute))
	// A Consul that has lost writes has forgotten that the first copy arrived: the second one has
	// to come while that is forgiven.
	if rnd.IntN(4) == 0 && !l.w.plan.losesWrites() {
		later = time.Duration(rnd.Float64() * float64(l.w.plan.span))
	}
	l.w.later(func() {
		select {
		case <-time.After(later):
		case <-l.w.calmed:
		}
		if r.renewal() {
			l.w.mark("revived", l.p.name(), "")
		}
		discard(l.w.deliver(context.Background(), l.p, r))
	})
}
