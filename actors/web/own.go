package web

import (
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
)

// ownCache is what the members of this process do, for all who ask whether they are ready. A member
// goes through all of its items for that, 50 ms of a processor with 20,000, and anybody may ask: so
// it is looked at once a second at most.
type ownCache struct {
	of func(*actors.Coordinator) actors.OwnItems

	mu    sync.Mutex
	fresh time.Time // until when last is good
	last  []actors.OwnItems
}

func newOwnCache() *ownCache { return &ownCache{of: (*actors.Coordinator).OwnItems} }

// look returns what each of the members does.
func (o *ownCache) look(members []*actors.Coordinator) []actors.OwnItems {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.fresh) {
		return o.last
	}
	o.last = make([]actors.OwnItems, len(members))
	for i, m := range members {
		o.last[i] = o.of(m)
	}
	o.fresh = time.Now().Add(lookEvery)
	return o.last
}
