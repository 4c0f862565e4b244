package actor

import (
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// AssignmentOf is an assignment as the actors have it.
func AssignmentOf(e store.Entry, a protocol.ItemAssignment) messages.Assignment {
	return messages.Assignment{
		Releasing: a.State == protocol.StateRel, Unreadable: a.Unreadable, Session: a.Session,
		Reason: a.Reason, AtOnce: a.AtOnce, Restart: a.Restart, Changed: a.Changed,
		Other:       a.Other,
		CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex,
	}
}
