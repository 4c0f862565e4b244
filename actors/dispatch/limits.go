package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// limit is a counter with a maximum. Nobody waits for it.
type limit struct {
	used atomic.Int64
	max  int64
}

func (g *limit) acquire() bool { return g.acquireN(1) }
func (g *limit) release()      { g.releaseN(1) }

// acquireN is acquire for n at once.
func (g *limit) acquireN(n int64) bool {
	if g.used.Add(n) > g.max {
		g.used.Add(-n)
		return false
	}
	return true
}

func (g *limit) releaseN(n int64) { g.used.Add(-n) }

// errNoRoom is returned for what does not fit into memory beside all else that is under way.
var errNoRoom = errors.New("no room")

// readAll reads at most so many bytes, all of which but the first free ones count in the limit as
// they come: one who sends slowly takes little. The room is to be given back, also after an error.
func (g *limit) readAll(r io.Reader, free, most int64) (all []byte, took int64, err error) {
	piece := make([]byte, 16<<10)
	for int64(len(all)) < most {
		n, err := r.Read(piece[:min(int64(len(piece)), most-int64(len(all)))])
		if more := int64(len(all)+n) - free - took; more > 0 {
			if !g.acquireN(more) {
				return nil, took, errNoRoom
			}
			took += more
		}
		all = append(all, piece[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, took, err
		}
	}
	return all, took, nil
}

// memberLimits has a limit for each member.
type memberLimits struct {
	max, maxBroadcasts int
	mu                 sync.Mutex
	used               map[string]int
	broadcasts         map[string]int // of those
}

// errLast is for a member that has its share already where the last places are left.
var errLast = errors.New("few places are left, and they are for members that have none yet, or " +
	"few, so that these have room")

// acquire takes a place if the member has less than so many, beside those of broadcasts.
func (g *memberLimits) acquire(id string, most int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch n := g.used[id]; {
	case n >= g.max:
		return fmt.Errorf("there are %d to it, which is the limit for one", n)
	case n-g.broadcasts[id] >= most:
		return errLast
	}
	g.used[id]++
	return nil
}

// acquireBroadcast takes one for a broadcast. The error says which limit the member has reached.
func (g *memberLimits) acquireBroadcast(id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broadcasts[id] >= g.maxBroadcasts {
		return fmt.Errorf("%d broadcasts wait for it, which is the limit", g.maxBroadcasts)
	}
	if g.used[id] >= g.max {
		return fmt.Errorf("%d requests to it are under way, which is the limit", g.max)
	}
	g.used[id]++
	g.broadcasts[id]++
	return nil
}

func (g *memberLimits) release(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	less(g.used, id)
}

func (g *memberLimits) releaseBroadcast(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	less(g.used, id)
	less(g.broadcasts, id)
}

// less counts one less.
func less(of map[string]int, id string) {
	if of[id]--; of[id] <= 0 {
		delete(of, id)
	}
}

// few is how many of the last places a member may have, while half of them are left.
const few = 8

// sharedPlaces are places that all members share. The first ones are for whoever comes. The last
// ones, an eighth, are for members that have few, and the last half of those for members that have
// none. So members that hang take no more of that half than one place each, whenever they come.
type sharedPlaces struct {
	limit
	each         memberLimits
	first, later int64 // up to so many: for whoever comes, and for members that have few
}

// newSharedPlaces has most places, each of them for one member at the most, but for those of so
// many broadcasts, which are at no member. A broadcast also counts at each member that it asks, and
// half of them may wait for one.
func newSharedPlaces(most, each, others int) sharedPlaces {
	first := most - most/8 - min(others, most/8)
	return sharedPlaces{limit: limit{max: int64(most)},
		first: int64(first), later: int64(first + most/16),
		each: memberLimits{max: each, maxBroadcasts: max(1, others/2), used: map[string]int{},
			broadcasts: map[string]int{}}}
}

// acquireAt takes a place at a member, for what has one of all. The error says why there is none.
func (p *sharedPlaces) acquireAt(id string) error {
	most := p.each.max
	switch used := p.used.Load(); {
	case used > p.later:
		most = 1
	case used > p.first:
		most = few
	}
	return p.each.acquire(id, most)
}

// memberTurns shares a number of places out evenly among members, so that members which hang leave
// theirs to the others.
type memberTurns struct {
	most int64
	mu   sync.Mutex
	of   map[string]*memberTurn
}

type memberTurn struct {
	places *semaphore.Weighted
	users  int
}

func newMemberTurns(most int) memberTurns {
	return memberTurns{most: int64(most), of: map[string]*memberTurn{}}
}

// take waits for one of the places that a member has, where there are so many members; for its only
// one, where there are more of them than places. The error is ctx's.
func (g *memberTurns) take(ctx context.Context, id string, members int) (give func(), err error) {
	weight := min(int64(members), g.most)
	g.mu.Lock()
	t := g.of[id]
	if t == nil {
		t = &memberTurn{places: semaphore.NewWeighted(g.most)}
		g.of[id] = t
	}
	t.users++
	g.mu.Unlock()
	leave := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(g.of, id)
		}
	}
	if err := t.places.Acquire(ctx, weight); err != nil {
		leave()
		return nil, err
	}
	return func() {
		t.places.Release(weight)
		leave()
	}, nil
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}}
}

func (b *buffers) Get() []byte  { return *b.pool.Get().(*[]byte) }
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
