package supervisor

import "context"

// Actor makes a child's function of an actor of oklog/run: execute runs until interrupt is called,
// with context.Cause of the child's context. Unlike there, interrupt is not called when execute has
// returned by itself. Children that are Temporary and Significant, in a Tree whose AutoShutdown is
// AnySignificant, end all when the first of them returns, as a run.Group does.
func Actor(execute func() error, interrupt func(error)) func(context.Context) error {
	return func(ctx context.Context) error {
		var bad error
		over := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(over)
			bad = Protect(func() error { interrupt(context.Cause(ctx)); return nil })
		})
		defer stop() // also when execute panics
		err := execute()
		if !stop() {
			<-over
		}
		if bad != nil {
			return bad
		}
		return err
	}
}
