package actors

import (
	"context"

	"github.com/coordd/coordd/actors/internal/actor"
)

// StuckAfter is how long an actor may hang before its member gives up what it holds.
const StuckAfter = actor.StuckAfter

// SetFault makes every actor of c call f where it has just taken a message. The
// context is the actor's own. Called before Run.
func SetFault(c *Coordinator, f func(context.Context) error) { c.base.Fault = f }
