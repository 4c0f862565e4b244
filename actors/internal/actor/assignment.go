package actor

import (
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// AssignmentOf reads an entry of the assignments tree.
func AssignmentOf(e store.Entry) (messages.Assignment, error) {
	a, err := protocol.ParseAssignment(e.Value)
	return messages.Assignment{
		Releasing: a.State == protocol.StateRel, Unreadable: err != nil, Session: a.Session,
		Reason:      a.Reason,
		CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex,
	}, err
}
