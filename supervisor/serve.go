package supervisor

import (
	"cmp"
	"context"
	"net"
	"runtime/pprof"
	"sync"
)

// Server is what [Serve] needs of a server. *http.Server is one.
type Server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// Serve makes a child's function of a server: each incarnation listens anew and makes its server,
// as one that was shut down cannot be used again. The child is ready when it listens. When it is
// asked to stop, Shutdown has four fifths of its StopTimeout for the requests under way; then Close
// ends them, also while Shutdown goes on. One of the two that panics is the child's failure.
func Serve(listen func() (net.Listener, error), server func() Server) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		ln, err := listen()
		if err != nil {
			return err
		}
		defer ln.Close()
		s := server()
		var atShutdown, atClose error // panics
		closed := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(closed)
			wait, cancel := mostOfItsTime(ctx)
			defer cancel()
			var once sync.Once
			end := func() {
				pprof.SetGoroutineLabels(ctx) // a timer's goroutine has none
				once.Do(func() {
					atClose = Protect(func() error { _ = s.Close(); return nil })
				})
			}
			inTime := context.AfterFunc(wait, end) // Shutdown may not heed it
			shut := false
			defer func() { // also when Shutdown ends the goroutine
				if !inTime() || !shut {
					end()
				}
			}()
			atShutdown = Protect(func() error {
				shut = s.Shutdown(wait) == nil
				return nil
			})
		})
		defer func() {
			if stop() {
				_ = s.Close()
				return
			}
			<-closed
			err = cmp.Or(atShutdown, atClose, err)
		}()
		Ready(ctx)
		return s.Serve(ln)
	}
}

// mostOfItsTime is a context for what a child does while it stops.
func mostOfItsTime(ctx context.Context) (context.Context, context.CancelFunc) {
	own, timeout := context.WithoutCancel(ctx), DefaultStopTimeout
	if r := runOf(ctx); r != nil {
		timeout = r.c.def.stopTimeout()
	}
	if timeout == 0 {
		return context.WithCancel(own)
	}
	return context.WithTimeout(own, timeout/5*4)
}
