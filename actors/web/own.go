package web

import (
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
)

// ownCache is what the members of this process do, for whoever asks whether they are ready. A
// member goes through all of its items for that, 50 ms of a processor with 20,000, and anybody may
// ask: so it is looked at once a second at most, less often where that takes long, and by one at a
// time.
type ownCache struct {
	of func(*actors.Coordinator) actors.OwnItems

	mu    sync.Mutex
	fresh time.Time // until when last is good
	last  []actors.OwnItems
}

// mostOwnRest is the longest pause behind a look, however long that took.
const mostOwnRest = 3 * time.Second

func newOwnCache() *ownCache { return &ownCache{of: (*actors.Coordinator).OwnItems} }

// look returns what each of the members does.
func (o *ownCache) look(members []*actors.Coordinator) []actors.OwnItems {
	o.mu.Lock()
	defer o.mu.Unlock()
	begin := time.Now()
	if begin.Before(o.fresh) {
		return o.last
	}
	o.last = make([]actors.OwnItems, len(members))
	for i, m := range members {
		o.last[i] = o.of(m)
	}
	o.fresh = goodUntil(begin, mostOwnRest)
	return o.last
}
