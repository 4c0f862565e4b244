package member

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// release gives items up whose work has ended: the keys go and the ack rises in
// one transaction, under the condition that the record is still this session's.
// One whose outcome is unknown is sent again: deleting a deleted key succeeds,
// and a key that was made anew has another index.
func (a *WorkerManager) release(ctx context.Context, s snapshot, ids []string) error {
	for _, id := range ids {
		key, _ := s.view.Items.Get(id)
		r := a.table.released[id]
		r.token = max(r.token, s.token(key))
		if j := a.table.items[id]; j != nil {
			r.token = max(r.token, j.token)
		}
		a.table.released[id] = r
	}
	refused := error(nil)
	for len(ids) > 0 {
		var ops []store.Op
		for _, id := range ids {
			key, _ := s.view.Items.Get(id)
			ops = append(ops, store.DeleteCAS(a.Keys.Assignment(a.ID, id), key.ModifyIndex))
		}
		err := a.ack.raise(ctx, s.session.ID, a.look(s), ops...)
		if r, ok := errors.AsType[*store.RefusedError](err); ok && r.Op >= 1 && r.Op <= len(ids) {
			// The leader has written that key since: its new version is on the way.
			id := ids[r.Op-1]
			x := a.table.released[id]
			x.after, x.at = s.view.Index, time.Now()
			a.table.released[id] = x
			ids = slices.Delete(slices.Clone(ids), r.Op-1, r.Op)
			refused = err
			continue
		}
		if err != nil {
			return err
		}
		for _, id := range ids {
			key, _ := s.view.Items.Get(id)
			a.table.released[id] = release{token: a.table.released[id].token,
				index: key.ModifyIndex, at: time.Now()}
			delete(a.table.items, id)
			if a.table.stuck[id].failed {
				a.Store.Succeeded("the release of " + id)
			}
		}
		a.changed = true
		a.Log.Debug("released", "items", len(ids))
		return refused
	}
	return refused
}

// look is the ack that says no more than that the leader is to look again. Whether it is clear is
// asked when it is written: the keeper may have said so meanwhile.
func (a *WorkerManager) look(s snapshot) func() protocol.Ack {
	return func() protocol.Ack {
		return a.ack.value(s.session.ID, a.snapshot(false).clear(), a.membership.Get().Inherited)
	}
}

// complain raises the ack because of a key that a stranger wrote over or took
// away: the leader, which does not watch the assignments, reads them again and writes it anew.
func (a *WorkerManager) complain(ctx context.Context, s snapshot, index uint64) error {
	err := a.ack.raise(ctx, s.session.ID, a.look(s))
	if err == nil {
		a.table.told, a.table.vanished = max(a.table.told, index), false
	}
	return err
}
