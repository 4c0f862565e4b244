package supervisor_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// text is a log that is read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

// hasTrace tells whether the log has a panic of the child at that path, with its stack.
func (x *text) hasTrace(path string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for line := range strings.Lines(x.b.String()) {
		if strings.Contains(line, "path="+path+" ") && strings.Contains(line, "kind=panic") &&
			strings.Contains(line, "at last") && strings.Contains(line, "stack=") {
			return true
		}
	}
	return false
}

func TestAPanicLeavesItsTraceWheneverItComes(t *testing.T) {
	late := func(name string) supervisor.Child {
		return supervisor.Child{Name: name, StopTimeout: time.Second,
			Run: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				panic("at last")
			}}
	}
	// busy is a tree whose supervisor waits for a second, from the failure of a on. Meanwhile b is
	// asked for something, and then it panics.
	busy := func(ending <-chan struct{}) (a *actor, tree supervisor.Child) {
		a = newActor(&journal{}, "a")
		slow, starts := a.child(), 0
		slow.Backoff = func() supervisor.Backoff {
			return meanwhile(func() { time.Sleep(time.Second) })
		}
		return a, supervisor.Child{Name: "tree", Tree: &supervisor.Tree{Children: []supervisor.Child{
			slow, {Name: "b", Run: func(ctx context.Context) error {
				if starts++; starts > 1 {
					<-ctx.Done()
					return nil
				}
				supervisor.Ready(ctx)
				<-ending
				panic("at last")
			}}}}}
	}
	for name, try := range map[string]func(t *testing.T, log supervisor.Option) (
		s *supervisor.Supervisor, path string, panics uint64){
		"while it stops": func(t *testing.T, log supervisor.Option) (*supervisor.Supervisor, string,
			uint64) {
			c := late("a")
			c.StopTimeout = time.Hour
			s := run(t, log, c)
			s.stop()
			return s.Supervisor, "root/a", 1
		},
		"by an Actor's interrupt": func(t *testing.T, log supervisor.Option) (
			*supervisor.Supervisor, string, uint64) {
			over := make(chan struct{})
			s := run(t, log, supervisor.Child{Name: "a", Run: supervisor.Actor(
				func() error { <-over; return nil },
				func(why error) { close(over); panic(fmt.Errorf("at last: %w", why)) })})
			s.stop()
			return s.Supervisor, "root/a", 1
		},
		"by a server's Shutdown": func(t *testing.T, log supervisor.Option) (
			*supervisor.Supervisor, string, uint64) {
			s := run(t, log, serves(failing{newServer(), func() { panic("at last") }}))
			s.stop()
			return s.Supervisor, "root/a", 1
		},
		"by a server's Close": func(t *testing.T, log supervisor.Option) (
			*supervisor.Supervisor, string, uint64) {
			s := run(t, log, serves(badClose{newServer()}))
			s.stop()
			return s.Supervisor, "root/a", 1
		},
		"when it was abandoned": func(t *testing.T, log supervisor.Option) (*supervisor.Supervisor,
			string, uint64) {
			s := run(t, log, late("a"))
			s.inGroup(func(g *supervisor.Group) { _ = g.Stop(t.Context(), "a") })
			time.Sleep(2 * time.Minute)
			s.stop()
			return s.Supervisor, "root/a", 1
		},
		"when all had stopped": func(t *testing.T, log supervisor.Option) (*supervisor.Supervisor,
			string, uint64) {
			s := run(t, log, late("a"))
			s.inGroup(func(g *supervisor.Group) { _, _ = g.Start(late("dynamic")) })
			s.stop()
			time.Sleep(2 * time.Minute)
			return s.Supervisor, "root/dynamic", 2
		},
		"in the moment in which it is restarted by hand": func(t *testing.T, log supervisor.Option) (
			*supervisor.Supervisor, string, uint64) {
			ending := make(chan struct{})
			a, tree := busy(ending)
			s := run(t, log, tree)
			a.now(boom)
			go func() { _ = s.Restart(t.Context(), "root/tree/b") }()
			synctest.Wait()
			close(ending)
			time.Sleep(10 * time.Second)
			s.stop()
			return s.Supervisor, "root/tree/b", 1
		},
		"in the moment in which it is removed": func(t *testing.T, log supervisor.Option) (
			*supervisor.Supervisor, string, uint64) {
			ending := make(chan struct{})
			a, tree := busy(ending)
			var group *supervisor.Group
			tree.Tree.Children = append(tree.Tree.Children, supervisor.Child{Name: "c",
				Run: func(ctx context.Context) error {
					group = supervisor.Of(ctx)
					<-ctx.Done()
					return nil
				}})
			s := run(t, log, tree)
			a.now(boom)
			synctest.Wait()
			go func() { _ = group.Stop(t.Context(), "b") }()
			synctest.Wait()
			close(ending)
			time.Sleep(10 * time.Second)
			s.stop()
			return s.Supervisor, "root/tree/b", 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log text
				s, path, panics := try(t, supervisor.WithLogger(slog.New(slog.NewTextHandler(&log,
					nil))))
				synctest.Wait()
				if !log.hasTrace(path) {
					t.Errorf("nothing is said of the panic of %s:\n%s", path, log.b.String())
				}
				c := s.Counters()
				if c.Total.Panics != panics {
					t.Errorf("%d panics are counted, want %d", c.Total.Panics, panics)
				}
				if _, there := c.Children["root/dynamic"]; there {
					t.Error("a dynamic child that is gone is counted still")
				}
			})
		})
	}
}

// badClose is a server that is to be closed, and panics then.
type badClose struct{ *server }

func (badClose) Close() error { panic("at last") }

func serves(s supervisor.Server) supervisor.Child {
	return supervisor.Child{Name: "a", Run: supervisor.Serve(newServer().listen,
		func() supervisor.Server { return s })}
}

// told runs a tree that says what it does.
type told struct {
	*supervisor.Supervisor
	stop  func()
	group *supervisor.Group
}

func (s *told) inGroup(f func(*supervisor.Group)) { f(s.group) }

func run(t *testing.T, log supervisor.Option, children ...supervisor.Child) *told {
	t.Helper()
	s := &told{}
	children = append(children, supervisor.Child{Name: "host", Run: func(ctx context.Context) error {
		s.group = supervisor.Of(ctx)
		<-ctx.Done()
		return nil
	}})
	var err error
	if s.Supervisor, err = supervisor.New("root", supervisor.Tree{Children: children},
		log); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = s.Run(ctx)
	}()
	synctest.Wait()
	s.stop = func() { cancel(); <-over }
	return s
}
