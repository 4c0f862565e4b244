package leader

import (
	"context"
	"errors"
	"strings"

	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// sessionAlive tells whether a session that member may work under still exists: that of its ack,
// or, where the ack says nothing or names another member's, that which it has named before, or one
// that its keys were granted to. Then what else the ack says is not member's either, and nothing is
// left of it but the TTL, which can only make the wait longer.
func (a *Assigner) sessionAlive(ctx context.Context, member string, ack *protocol.Ack) (bool,
	error) {
	if mutations.Broken("gone-by-record-alone") {
		return false, nil
	}
	if ack.Session != "" {
		name, exists, err := a.Store.SessionName(ctx, ack.Session)
		if err != nil || !exists || !a.ForeignSession(name, member) {
			return exists, err
		}
		*ack = protocol.Ack{Session: ack.Session, TTL: ack.TTL}
	}
	sessions := map[string]bool{}
	// The keys that it has inherited name its predecessor's session; what its ack has said before
	// names its own.
	if known, _ := a.acks.Get().Items.Get(member); known.Session != "" {
		sessions[known.Session] = true
	}
	for _, key := range a.assigned.members[member] {
		if key.Session != "" {
			sessions[key.Session] = true
		}
	}
	for session := range sessions {
		name, exists, err := a.Store.SessionName(ctx, session)
		if err != nil || exists && !a.ForeignSession(name, member) {
			return exists, err
		}
	}
	return false, nil
}

// deleteForeignRecords deletes records that a stranger has locked with the session of another
// member, whose own record it locks as well: what is given to such a member nobody works on, for as
// long as the other lives.
func (a *Assigner) deleteForeignRecords(ctx context.Context) error {
	by, members := map[string][]string{}, a.members.Get().Items
	for id, m := range members.All() {
		// a lock by the same letters in capitals is the same session's
		session := strings.ToLower(m.Session)
		by[session] = append(by[session], id)
	}
	for session, ids := range by {
		if len(ids) == 1 {
			continue
		}
		name, exists, err := a.Store.SessionName(ctx, session)
		if errors.Is(err, store.ErrDenied) {
			a.Store.Failed("the session of "+ids[0], err, deniedPause)
			continue
		}
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !exists || !a.ForeignSession(name, id) {
				continue
			}
			m, _ := members.Get(id)
			err := a.deleteRecord(ctx, id, m.Session)
			if errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrInvalid) {
				a.Store.Failed("the record of "+id, err, deniedPause)
				continue // it concerns this id and no other
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteRecord deletes the record of a member if it is locked by session; the empty string: by
// none.
func (a *Assigner) deleteRecord(ctx context.Context, member, session string) error {
	e, found, _, err := a.Store.Get(ctx, a.Keys.Member(member), store.Consistent)
	if err != nil || !found || e.Session != session {
		return err
	}
	a.Log.Warn("strange-member-record-deleted", "key", e.Key, "locked_by", e.Session, "value",
		string(e.Value[:min(len(e.Value), 100)]))
	_, err = a.Store.Txn(ctx, store.CheckIndex(a.Keys.Leader(), a.epoch), store.DeleteCAS(e.Key,
		e.ModifyIndex))
	if errors.Is(err, store.ErrRefused) {
		return nil
	}
	return err
}
