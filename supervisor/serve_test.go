package supervisor_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// failing is a server whose Shutdown fails as a function can.
type failing struct {
	*server
	fails func()
}

func (s failing) Shutdown(context.Context) error {
	s.fails()
	return nil
}

func (s failing) Close() error {
	close(s.shut)
	return s.server.Close()
}

func TestAShutdownThatPanicsIsTheServersFailure(t *testing.T) {
	for name, fails := range map[string]func(){
		"panics": func() { panic("ouch") },
		"leaves": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := failing{newServer(), fails}
				r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "http",
					Run: supervisor.Serve(
						func() (net.Listener, error) { return nowhere{}, nil },
						func() supervisor.Server { return s },
					)}}})
				r.mustEnd(t)
				<-s.closed
				var p *supervisor.PanicError
				c := r.find(t, "root/http").LastCause
				if name == "panics" && (c == nil || !errors.As(c.Err, &p)) {
					t.Errorf("the cause is %v", c)
				}
			})
		})
	}
}

// graceful is a server whose Shutdown heeds no deadline, as gRPC's GracefulStop: it returns when
// the last request has ended, or when the server is closed.
type graceful struct {
	*server
	over chan struct{}
}

func (s graceful) Shutdown(context.Context) error { <-s.over; return nil }

func (s graceful) Close() error {
	close(s.over)
	close(s.shut)
	return s.server.Close()
}

func TestAServerWhoseShutdownHeedsNoDeadlineIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := graceful{newServer(), make(chan struct{})}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "grpc",
			StopTimeout: 10 * time.Second,
			Run: supervisor.Serve(func() (net.Listener, error) { return nowhere{}, nil },
				func() supervisor.Server { return s })}}})
		begin := time.Now()
		r.mustEnd(t)
		if took := time.Since(begin); took != 8*time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}
