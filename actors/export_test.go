package actors

import (
	"context"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/messages"
)

// StuckAfter is how long an actor may hang before its member gives up what it holds.
const StuckAfter = actor.StuckAfter

// SetFault makes every actor of c call f where it has just taken a message. The
// context is the actor's own. Called before Run.
func SetFault(c *Coordinator, f func(context.Context) error) { c.base.Fault = f }

// Control is what the leader knows of the operators' orders.
func (c *Coordinator) Control() messages.Control { return c.cells.control.Get() }
