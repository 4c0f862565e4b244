package store

import "context"

// Fault makes an actor fail where it has just taken a message and done nothing with it yet. It is
// nil but in tests.
type Fault func(context.Context) error

// Inject returns the fault's error, which is the actor's end; nil if there is no fault.
func (f Fault) Inject(ctx context.Context) error {
	if f == nil {
		return nil
	}
	return f(ctx)
}
