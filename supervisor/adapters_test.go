package supervisor_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// server is one whose requests take as long as they like.
type server struct {
	shut, closed chan struct{}
	last         time.Duration // given to Shutdown
}

// nowhere is a listener that nobody calls.
type nowhere struct{ net.Listener }

func (nowhere) Close() error { return nil }

func newServer() *server {
	return &server{shut: make(chan struct{}), closed: make(chan struct{})}
}

func (s *server) listen() (net.Listener, error) { return nowhere{}, nil }
func (s *server) Serve(net.Listener) error      { <-s.shut; return errBoom }
func (s *server) Shutdown(ctx context.Context) error {
	close(s.shut)
	begin := time.Now()
	<-ctx.Done()
	s.last = time.Since(begin)
	return ctx.Err()
}

func (s *server) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

func TestAServerHasMostOfItsStopTimeoutAndIsClosedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		r := start(t, supervisor.Tree{Children: []supervisor.Child{{
			Name: "http", StopTimeout: 10 * time.Second, Gate: true,
			Run: supervisor.Serve(s.listen, func() supervisor.Server { return s }),
		}}})
		if rep := r.find(t, "root/http"); !rep.Ready {
			t.Error("it is not ready although it listens")
		}
		r.mustEnd(t)
		<-s.closed
		if s.last != 8*time.Second {
			t.Errorf("requests under way had %v", s.last)
		}
	})
}

func TestAServerThatCannotListenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := start(
			t,
			supervisor.Tree{
				Children: []supervisor.Child{
					{Name: "http", Backoff: every(time.Second), Run: supervisor.Serve(
						func() (net.Listener, error) { tries++; return nil, errBoom },
						func() supervisor.Server { return newServer() },
					)},
				},
			},
		)
		time.Sleep(3500 * time.Millisecond)
		r.mustEnd(t)
		if tries != 4 {
			t.Errorf("%d tries", tries)
		}
	})
}

func TestAnActorThatPanicsIsNotInterruptedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupts, starts := 0, 0
		r := start(
			t,
			supervisor.Tree{Children: []supervisor.Child{
				{
					Name:    "a",
					Restart: supervisor.Temporary,
					Run: supervisor.Actor(
						func() error { starts++; panic("ouch") },
						func(error) { interrupts++ },
					),
				},
			}},
		)
		r.mustEnd(t)
		if starts != 1 || interrupts != 0 {
			t.Errorf("%d starts and %d interrupts", starts, interrupts)
		}
	})
}

func TestAnInterruptThatPanicsIsTheActorsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		r := start(t, supervisor.Tree{Children: []supervisor.Child{
			{
				Name: "a",
				Run: supervisor.Actor(
					func() error { <-stop; return nil },
					func(error) { close(stop); panic("ouch") },
				),
			},
		}})
		r.mustEnd(t)
		var p *supervisor.PanicError
		if c := r.find(t, "root/a").LastCause; c == nil || !errors.As(c.Err, &p) {
			t.Errorf("the cause is %v", c)
		}
	})
}

func TestFunctionsTogetherEndWellWhenAllDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(d time.Duration) func(context.Context) error {
			return func(context.Context) error { time.Sleep(d); return nil }
		}
		s, err := supervisor.New(
			"jobs",
			supervisor.Together(wait(time.Minute), wait(time.Second)),
			quiet,
		)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.Run(t.Context()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %v Run returned %v", time.Since(began), err)
		}
	})
}

func TestWhatHangsAfterAChildWasAskedToStopIsNamedAsItsOwn(t *testing.T) {
	for name, run := range map[string]func(letGo chan struct{}) func(context.Context) error{
		"interrupt of an actor": func(letGo chan struct{}) func(context.Context) error {
			return supervisor.Actor(func() error { <-letGo; return nil },
				func(error) { hang(letGo) })
		},
		"Shutdown of a server": func(letGo chan struct{}) func(context.Context) error {
			return supervisor.Serve(newServer().listen,
				func() supervisor.Server { return hungServer{newServer(), letGo} })
		},
		"context.AfterFunc": func(letGo chan struct{}) func(context.Context) error {
			return func(ctx context.Context) error {
				defer context.AfterFunc(ctx, func() { hang(letGo) })()
				<-letGo
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				letGo := make(chan struct{})
				defer close(letGo)
				r := start(t, supervisor.Tree{Children: []supervisor.Child{
					{Name: "tree", Tree: &supervisor.Tree{Children: []supervisor.Child{
						{Name: "hangs", Run: run(letGo)}}}}}})
				stuck := stuckOf(t, r.end())
				for _, f := range []string{"supervisor_test.hang+", "supervisor_test.helpToHang+"} {
					if !strings.Contains(stuck.Children[0].Stack, f) {
						t.Errorf("no %s in the stacks: %v", f, stuck)
					}
				}
			})
		})
	}
}

// hungServer does not heed the context of its Shutdown.
type hungServer struct {
	*server
	letGo chan struct{}
}

func (s hungServer) Serve(net.Listener) error       { <-s.letGo; return errBoom }
func (s hungServer) Shutdown(context.Context) error { hang(s.letGo); return nil }
