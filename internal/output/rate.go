//go:build unix

package output

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates keeps the limit of each item. An item whose command ends and starts again keeps its own.
type rates struct {
	limit int // lines a second; 0: none

	mu     sync.Mutex
	items  map[string]*itemRate
	tidyAt int // how many items there are when those are forgotten that have their burst back
}

type itemRate struct {
	limiter *rate.Limiter
	users   int
}

// minTidy is how many items are kept before any is forgotten.
const minTidy = 64

func newRates(limit int) *rates {
	return &rates{limit: limit, items: map[string]*itemRate{}, tidyAt: minTidy}
}

// use returns the limiter of an item, nil when there is no limit. Call release when done.
func (r *rates) use(item string) *rate.Limiter {
	if r.limit == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.items[item]
	if i == nil {
		i = &itemRate{limiter: rate.NewLimiter(rate.Limit(r.limit), r.limit*BurstSeconds)}
		r.items[item] = i
	}
	i.users++
	return i.limiter
}

func (r *rates) release(item string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.items[item]
	if i == nil {
		return
	}
	i.users--
	if len(r.items) < r.tidyAt {
		return
	}
	for name, i := range r.items {
		if i.users == 0 && i.limiter.TokensAt(now) >= float64(i.limiter.Burst()) {
			delete(r.items, name)
		}
	}
	r.tidyAt = max(minTidy, 2*len(r.items))
}
