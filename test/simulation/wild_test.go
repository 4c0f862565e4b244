package simulation_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
)

// anyWild are the rates at which a host's own way to Consul panics, or ends the goroutine that
// asks.
var anyWild = []float64{0, 0, 0.001, 0.01}

var errWild = errors.New("the host's way to Consul panics")

// wild is what a host's own transport may do beside answering: it panics, or ends the goroutine,
// before a request is sent or when it has been answered. Only an actor asks in this way: who calls
// from elsewhere has it in its own goroutine.
func (l *link) wild(r *request, actor string, answered bool) {
	// Dice of its own: the others fall as they did.
	rnd := rand.New(rand.NewPCG(l.w.plan.seed+1<<41, hash(l.p.name())+r.number))
	if actor == "" || l.w.calm.Load() || rnd.Float64() >= l.w.plan.settings.wild {
		return
	}
	if after := rnd.IntN(2) == 0; after != answered {
		return
	}
	if rnd.IntN(2) == 0 {
		runtime.Goexit()
	}
	panic(errWild)
}
