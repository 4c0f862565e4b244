package configstore

import (
	"sync"

	"github.com/coordd/coordd/internal/protocol"
)

// running counts the stores of this process that run, by their instances. A marker may name one
// that has stopped: where Consul was away, nobody could give it up. The process lives on, and that
// says nothing of the store.
var running = struct {
	sync.Mutex
	stores map[string]int
}{stores: map[string]int{}}

// noteRunning notes that a store runs, until ended is called.
func noteRunning(instance string) (ended func()) {
	running.Lock()
	defer running.Unlock()
	running.stores[instance]++
	return func() {
		running.Lock()
		defer running.Unlock()
		if running.stores[instance]--; running.stores[instance] <= 0 {
			delete(running.stores, instance)
		}
	}
}

// liveness tells whether a store still runs: the one that a marker names.
func (sh *shared) liveness(p protocol.Process) protocol.Liveness {
	if p.SameProcess(*sh.Process) && !runs(p.Instance) {
		return protocol.Dead
	}
	return sh.Liveness(p)
}

func runs(instance string) bool {
	running.Lock()
	defer running.Unlock()
	return running.stores[instance] > 0
}
