package leader

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// sessionAlive tells whether a session that member may work under still exists: that of its ack,
// and that of its last registration, by its sentinel, where a stranger wrote over the ack. Where
// the ack says nothing or names another member's, it is also that which it has named before, or one
// that its keys were granted to. Then what else the ack says is not member's either, and nothing is
// left of it but the TTL, which can only make the wait longer.
func (a *Assigner) sessionAlive(ctx context.Context, member string, ack *protocol.Ack,
	registered string) (bool, error) {
	sessions, foreign := map[string]bool{registered: true}, false
	if ack.Session != "" {
		name, exists, err := a.Store.SessionName(ctx, ack.Session)
		foreign = exists && a.ForeignSession(name, member)
		if err != nil || exists && !foreign {
			return exists, err
		}
		if foreign {
			*ack = protocol.Ack{Session: ack.Session, TTL: ack.TTL}
		} else {
			delete(sessions, ack.Session)
		}
	}
	if ack.Session == "" || foreign {
		// The keys that it has inherited name its predecessor's session; what its ack has said
		// before names its own.
		if known, _ := a.acks.Get().Items.Get(member); known.Session != "" {
			sessions[known.Session] = true
		}
		for _, key := range a.assigned.members[member] {
			sessions[key.Session] = true
		}
	}
	delete(sessions, "")
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
//
// It returns when to look again at one about which that could not be found out, or not be done.
func (a *Assigner) deleteForeignRecords(ctx context.Context) (again time.Time, err error) {
	by, members, began := map[string][]string{}, a.members.Get().Items, time.Now()
	for id, m := range members.All() {
		// a lock by the same letters in capitals is the same session's
		session := strings.ToLower(m.Session)
		by[session] = append(by[session], id)
	}
	maps.DeleteFunc(a.foreign, func(session string, _ *aside) bool { return len(by[session]) < 2 })
	mine := a.ofOneID(ctx)
	for session, ids := range by {
		if len(ids) == 1 {
			continue
		}
		if x := a.foreign[session]; x != nil && began.Before(x.until) {
			again = actor.Earliest(again, x.until)
			continue
		}
		failed := a.deleteForeign(ctx, session, ids)
		switch {
		case failed == nil:
			delete(a.foreign, session)
			continue
		case !mine(failed): // what was done about others stands
			err = failed
			continue
		case a.foreign[session] == nil:
			a.foreign[session] = &aside{}
		}
		next := a.foreign[session].failed(began, time.Now())
		if !errors.Is(failed, store.ErrUnreachable) {
			next = time.Now().Add(deniedPause)
			a.foreign[session].until = next
		}
		a.leaveAside("the records that the session of "+ids[0]+" has locked", failed, next)
		again = actor.Earliest(again, next)
	}
	return again, err
}

// deleteForeign deletes the records of those members that session is not of.
func (a *Assigner) deleteForeign(ctx context.Context, session string, ids []string) (failed error) {
	name, exists, err := a.Store.SessionName(ctx, session)
	if err != nil || !exists {
		return err
	}
	for _, id := range ids {
		if !a.ForeignSession(name, id) {
			continue
		}
		m, _ := a.members.Get().Items.Get(id)
		if _, err := a.deleteRecord(ctx, id, m.Session); err != nil {
			failed = err // it concerns this id and no other
		}
	}
	return failed
}

// deleteRecord deletes the record of a member if it is locked by session; the empty string: by
// none.
func (a *Assigner) deleteRecord(ctx context.Context, member, session string) (deleted bool,
	err error) {
	e, found, _, err := a.Store.Get(ctx, a.Keys.Member(member), store.Consistent)
	if err != nil || !found || e.Session != session {
		return false, err
	}
	a.Log.Warn("strange-member-record-deleted", "key", e.Key, "locked_by", e.Session, "value",
		string(e.Value[:min(len(e.Value), 100)]))
	_, err = a.Store.Txn(ctx, store.CheckIndex(a.Keys.Leader(), a.epoch), store.DeleteCAS(e.Key,
		e.ModifyIndex))
	if errors.Is(err, store.ErrRefused) {
		return false, nil
	}
	return err == nil, err
}
