package actor

import (
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// AssignmentOf is an assignment as the actors have it.
func AssignmentOf(e store.Entry, a protocol.ItemAssignment) facts.Assignment {
	return facts.Assignment{
		Releasing: a.State == protocol.StateRel, Unreadable: a.Unreadable, Session: a.Session,
		Reason: a.Reason, AtOnce: a.AtOnce, Restart: a.Restart, Changed: a.Changed,
		Other:       a.Other,
		CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex,
	}
}
