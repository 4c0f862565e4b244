package routing

import (
	"context"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// pollWait is how long a poll waits at the server: one that ends without a change brings all that
// is below its prefix again. A connection that died unnoticed is found out by the pulse.
const pollWait = 5 * time.Minute

// follow returns an actor that follows prefix by long polls and enters each view into the table,
// with the generation in which its watch was begun.
func (r *Router) follow(what, prefix string, enter func(store.View, int,
	time.Time)) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := r.wanted.Reader().Wait(ctx, func(on bool) bool { return on }); err != nil {
			return nil
		}
		w, gen := store.WatchPrefix(r.store, prefix).Wait(pollWait), 0
		next := func(poll context.Context) (store.View, error) {
			if w.Anew() {
				gen = r.table.generation()
			}
			return w.Next(poll)
		}
		for view := range w.Views(ctx, what, &r.polls, next) {
			enter(view, gen, time.Now())
			supervisor.Ready(ctx)
			store.Pause(ctx, restAfter(len(view.Entries)))
		}
		return nil
	}
}

// restAfter is the least time between two views of a prefix of n keys, which is read whole at each
// change: a burst is seen in a few views, a small share's change at once.
func restAfter(n int) time.Duration {
	return min(10*time.Millisecond+time.Duration(n/100)*time.Millisecond, time.Second)
}

// rereadAll begins a generation: everything is read anew. Began is a moment from which on Consul is
// known to have answered.
func (r *Router) rereadAll(began time.Time) {
	r.table.begin(began)
	r.polls.Renew()
}

// manageShares starts and stops one follower for each member's share.
func (r *Router) manageShares(ctx context.Context) error {
	group := supervisor.Of(ctx)
	roster, late := r.table.roster.Subscribe(), r.late.Subscribe()
	watched := map[string]*supervisor.Handle{}
	after := map[string]uint64{}         // the ack for which the share is read again
	for _, name := range group.Names() { // those of an incarnation before
		if id, ok := strings.CutPrefix(name, shareName); ok {
			watched[id], _ = group.Child(name)
		}
	}
	warned := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-roster.Changed():
		case <-late.Changed():
			for id, ack := range late.Take() {
				if h := watched[id]; h != nil && after[id] != ack {
					after[id] = ack
					r.log.Debug("routing-share-read-again", "member", id, "why",
						"its poll has missed a change")
					if !stopAndWait(ctx, h) {
						return nil
					}
					delete(watched, id)
				}
			}
		}
		ids := roster.Take()
		on := make(map[string]bool, len(ids))
		for _, id := range ids {
			on[id] = true
		}
		for id, h := range watched {
			if on[id] {
				continue
			}
			if !stopAndWait(ctx, h) {
				return nil
			}
			delete(watched, id)
			delete(after, id)
			r.table.forget(id, time.Now())
		}
		for _, id := range ids {
			if watched[id] != nil {
				continue
			}
			run := r.follow("routing: items of "+id, r.keys.AssignmentsOf(id),
				r.enterShare(id, after[id]))
			h, err := group.Start(supervisor.Child{Name: shareName + id, Run: run,
				HealthyAfter: 10 * time.Second})
			if err != nil {
				return err
			}
			watched[id] = h
		}
		if len(ids) > manyMembers && !warned {
			warned = true
			r.log.Warn("routing-many-members", "members", len(ids), "long_polls", len(ids)+2,
				"do",
				"raise limits.http_max_conns_per_client of Consul's agents above the number of "+
					"members and what else this host asks of them (200 by default), or route "+
					"from fewer hosts")
		}
	}
}

// enterShare enters the views of one follower, which was started when the member's newest ack was
// of index ack. In a later generation Consul may have gone back, and its indexes with it.
func (r *Router) enterShare(id string, ack uint64) func(store.View, int, time.Time) {
	first := 0
	return func(v store.View, gen int, now time.Time) {
		if first == 0 {
			first = gen
		}
		if gen != first {
			ack = 0
		}
		r.table.share(id, v, gen, now, ack)
	}
}

const shareName = "share-"

// stopAndWait stops a follower and waits until it has ended, so that no two write to one share.
func stopAndWait(ctx context.Context, h *supervisor.Handle) bool {
	h.Stop()
	select {
	case <-h.Done():
		return true
	case <-ctx.Done():
		return false
	}
}
