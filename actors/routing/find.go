package routing

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Locate locates one item once, without a router: it reads the records and then the item's key at
// each member, consistently, and the workload if there is none. Errors: [ErrConfig], those of
// [Router.Locate] but [ErrNotReady], and those of Consul.
func Locate(ctx context.Context, cfg Config, item string) (Location, error) {
	s, err := cfg.open()
	if err != nil {
		return Location{}, err
	}
	if err := protocol.CheckID("item id", item); err != nil {
		return Location{}, err
	}
	const tries = 3
	for try := 1; ; try++ {
		loc, what, err := find(ctx, s, item)
		if err != nil {
			return Location{}, err
		}
		switch what {
		case owned:
			return loc, nil
		case moving:
			return Location{}, itemError(item, ErrMoving)
		}
		_, exists, _, err := s.Get(ctx, s.Keys().WorkItem(item), store.Consistent)
		switch {
		case err != nil:
			return Location{}, err
		case !exists:
			return Location{}, itemError(item, ErrUnknownItem)
		case try == tries: // it may have moved from one that was not read yet to one that was
			return Location{}, itemError(item, ErrNoOwner)
		}
	}
}

func find(ctx context.Context, s *protocol.Store, item string) (Location, finding, error) {
	now, keys := time.Now(), s.Keys()
	t := newTable(keys, time.Hour, func(store.Entry, string) {})
	gen := t.begin(now)
	for _, part := range []struct {
		prefix string
		enter  func(store.View, int, time.Time)
	}{{keys.Members(), t.members}, {keys.Acks(), t.acks}} {
		entries, index, err := s.List(ctx, part.prefix, store.Consistent)
		if err != nil {
			return Location{}, 0, err
		}
		part.enter(store.View{Entries: entries, Index: index}, gen, now)
	}
	for _, id := range t.roster.Get() {
		// Read after the record, so not older than it, whatever the index of a single key says.
		v := store.View{Index: t.peers[id].record}
		e, found, index, err := s.Get(ctx, keys.Assignment(id, item), store.Consistent)
		if err != nil {
			return Location{}, 0, err
		}
		if v.Index = max(index, v.Index); found {
			v.Entries = []store.Entry{e}
		}
		t.share(id, v, gen, now, 0)
	}
	loc, what := t.look(item, now)
	return loc, what, nil
}
