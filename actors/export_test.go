package actors

import "context"

// SetFault makes every actor of c call f where it has just taken a message. The
// context is the actor's own. Called before Run.
func SetFault(c *Coordinator, f func(context.Context) error) { c.house.fault = f }
