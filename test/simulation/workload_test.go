package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

func (w *world) addWork(n int) {
	for range n {
		w.nextItem++
		w.items.Add(1)
		w.putWork(fmt.Sprintf("w%d", w.nextItem))
	}
}

func (w *world) putWork(id string) {
	w.retry(func(ctx context.Context) error {
		return keys.Put(ctx, w.user, w.user.Keys().WorkItem(id), w.payload(id), 0)
	})
	w.work[id] = true
}

func (w *world) removeWork(n int) {
	for _, id := range slices.Sorted(maps.Keys(w.work)) {
		if n--; n < 0 || len(w.work) < 2 {
			return
		}
		w.retry(func(ctx context.Context) error {
			if err := w.operator.RemoveWork(ctx, id); !errors.Is(err, operator.ErrNotFound) {
				return err
			}
			return nil // an attempt whose reply was lost
		})
		delete(w.work, id)
	}
}

// asOf separates an item's payload from the number of its change.
const asOf = "#"

// changeWork changes the payloads of n items, as a user does.
func (w *world) changeWork(n int) {
	for _, id := range slices.Sorted(maps.Keys(w.work)) {
		if n--; n < 0 {
			return
		}
		w.changes++
		value := fmt.Appendf(w.payload(id), "%s%d", asOf, w.changes)
		w.retry(func(ctx context.Context) error {
			return keys.Put(ctx, w.user, w.user.Keys().WorkItem(id), value, 0)
		})
	}
}

// onChange is what a member's host has chosen.
func (w *world) onChange(id string) actors.OnChange {
	switch {
	case !w.plan.settings.changes:
		return actors.KeepOnChange
	case hash(id)%2 == 0:
		return actors.RestartOnChange
	}
	return actors.SendOnChange
}

// knows notes what work knows of its payload, until it ends.
func (p *process) knows(item string, payload []byte) (forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[item] = string(payload)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.known, item)
	}
}

// judgeChanges wants all work to know the payload that its item has. Of a Consul that was restored,
// or whose keys a stranger has deleted, it may be the one from before.
func (w *world) judgeChanges() {
	if !w.plan.settings.changes || w.hanging != nil || w.plan.losesWrites() {
		return
	}
	entries, _, err := w.user.List(context.Background(), w.user.Keys().Workload(),
		store.Consistent)
	if err != nil {
		w.fail("the workload cannot be read: %v", err)
		return
	}
	for _, e := range entries {
		id := strings.TrimPrefix(e.Key, w.user.Keys().Workload())
		for _, member := range w.plan.ids {
			p := w.proc(member)
			if p == nil {
				continue
			}
			p.mu.Lock()
			known, runs := p.known[id]
			p.mu.Unlock()
			if runs && known != string(e.Value) {
				w.fail("I4: the work on %s at %s knows of the change %q, and the last one is %q",
					id, p.name(), change([]byte(known)), change(e.Value))
			}
		}
	}
}

// change is the number of a payload's change; empty: it was not changed.
func change(payload []byte) string {
	_, n, _ := strings.Cut(string(payload), asOf)
	return n
}
