//go:build linux

package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/hashicorp/consul/api"
)

// watchKeys writes the service's keys into the history, view by view, until ctx ends. A view is
// what one server held at one moment, however far behind that may be: none of them may show an item
// with two keys.
func (w *world) watchKeys(ctx context.Context) {
	seen := map[string]*api.KVPair{}
	var last, index uint64
	for server := 0; ctx.Err() == nil; {
		call, cancel := context.WithTimeout(ctx, 8*time.Second)
		pairs, meta, err := w.consul.Servers[server%3].Client().KV().List(w.root,
			(&api.QueryOptions{AllowStale: true, WaitIndex: index,
				WaitTime: 3 * time.Second}).WithContext(call))
		cancel()
		if err != nil {
			server++ // it is down, frozen, or starting
			index = 0
			w.await(ctx, 100*time.Millisecond)
			continue
		}
		if index = meta.LastIndex; index <= last {
			if index < last {
				index = 0 // a server that is behind: nothing that was not seen already
				server++
				w.await(ctx, 100*time.Millisecond)
			}
			continue
		}
		last = index
		now := map[string]*api.KVPair{}
		for _, p := range pairs {
			now[strings.TrimPrefix(p.Key, w.root)] = p
		}
		w.ledger.view(index, seen, now)
		seen = now
	}
}

// view records the difference between two views.
func (l *ledger) view(index uint64, old, now map[string]*api.KVPair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Now()
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if now[key] == nil {
			l.history.Add(history.Event{At: at, Verb: history.Del, Index: index, Key: key})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		p := now[key]
		if o := old[key]; o != nil && o.ModifyIndex == p.ModifyIndex {
			continue
		}
		e := history.Event{At: at, Verb: history.Set, Index: index, Key: key,
			Value: string(p.Value)}
		if key == "leader" {
			e.Index = p.ModifyIndex // the epoch
		}
		l.history.Add(e)
	}
}

// lost says which items of the workload are missing from the keys, or are there and should not be.
func (w *world) lost() error {
	pairs, _, err := w.consul.Client().KV().Keys(w.root+"workload/", "",
		&api.QueryOptions{RequireConsistent: true})
	if err != nil {
		return err
	}
	have, want := map[string]bool{}, w.workload()
	for _, key := range pairs {
		if id := strings.TrimPrefix(key, w.root+"workload/"); id != "" {
			have[id] = true
		}
	}
	if !maps.Equal(have, want) {
		return fmt.Errorf("the workload has %d items and not the %d that were added", len(have),
			len(want))
	}
	return nil
}
