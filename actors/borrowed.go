package actors

import (
	"context"
	"errors"
	"strings"

	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// A stranger's key may name the session of a member that lives: a record that it locks with it, an
// ack or an assignment of somebody else's. Whose a session is shows by its name, which is given
// when it is made and never changes. A session that is another member's says nothing of this one.

// sessionName is the name of a member's session.
func (h *base) sessionName(member string) string { return h.Service + "/" + member }

// anothers tells whether a session of this name is that of a member other than member. A session
// whose name is of another form may be anybody's.
func (h *base) anothers(name, member string) bool {
	id, ok := strings.CutPrefix(name, h.sessionName(""))
	return ok && id != member && protocol.CheckMemberID(id) == nil
}

// sessionAlive tells whether a session that member may work under still exists: that of its ack,
// or, where the ack says nothing or names another member's, that which it has named before, or one
// that its keys were granted to. Then what else the ack says is not member's either, and nothing is
// left of it but the TTL, which can only make the wait longer.
func (a *assigner) sessionAlive(ctx context.Context, member string, ack *protocol.Ack) (bool,
	error) {
	if mutations.Broken("gone-by-record-alone") {
		return false, nil
	}
	if ack.Session != "" {
		name, exists, err := a.store.SessionName(ctx, ack.Session)
		if err != nil || !exists || !a.anothers(name, member) {
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
		name, exists, err := a.store.SessionName(ctx, session)
		if err != nil || exists && !a.anothers(name, member) {
			return exists, err
		}
	}
	return false, nil
}

// clearBorrowed deletes records that a stranger has locked with the session of another member,
// whose own record it locks as well: what is given to such a member nobody works on, for as long as
// the other lives.
func (a *assigner) clearBorrowed(ctx context.Context) error {
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
		name, exists, err := a.store.SessionName(ctx, session)
		if errors.Is(err, store.ErrDenied) {
			a.store.Failed("the session of "+ids[0], err, deniedPause)
			continue
		}
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !exists || !a.anothers(name, id) {
				continue
			}
			m, _ := members.Get(id)
			if err := a.clearRecord(ctx, id, m.Session); err != nil {
				return err
			}
		}
	}
	return nil
}

// clearRecord deletes the record of a member if it is locked by session; the empty string: by none.
func (a *assigner) clearRecord(ctx context.Context, member, session string) error {
	e, found, _, err := a.store.Get(ctx, a.keys.Member(member), store.Consistent)
	if err != nil || !found || e.Session != session {
		return err
	}
	a.log.Warn("strange-member-record-deleted", "key", e.Key, "locked_by", e.Session, "value",
		string(e.Value[:min(len(e.Value), 100)]))
	_, err = a.store.Txn(ctx, store.CheckIndex(a.keys.Leader(), a.epoch), store.DeleteCAS(e.Key,
		e.ModifyIndex))
	if errors.Is(err, store.ErrRefused) {
		return nil
	}
	return err
}
