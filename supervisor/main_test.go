package supervisor_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Setenv("GODEBUG", "tracebacklabels=1")
	goleak.VerifyTestMain(m)
}

var quiet = supervisor.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// journal is what children write down, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lines
	j.lines = nil
	return l
}

// actor runs until it is stopped or gets a failure to return.
type actor struct {
	name string
	j    *journal
	fail chan func() error
}

func newActor(j *journal, name string) *actor {
	return &actor{name, j, make(chan func() error)}
}

func (a *actor) run(ctx context.Context) error {
	a.j.add("+" + a.name)
	defer a.j.add("-" + a.name)
	supervisor.Ready(ctx)
	select {
	case f := <-a.fail:
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now makes the actor end by itself in this way.
func (a *actor) now(f func() error) {
	a.fail <- f
	synctest.Wait()
}

func (a *actor) child() supervisor.Child {
	return supervisor.Child{Name: a.name, Run: a.run, Backoff: every(time.Second)}
}

func every(d time.Duration) func() supervisor.Backoff {
	return supervisor.Constant(d)
}

// running is a supervisor that runs in the bubble.
type running struct {
	*supervisor.Supervisor
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, tree supervisor.Tree) *running {
	t.Helper()
	s, err := supervisor.New("root", tree, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{s, cancel, make(chan error, 1)}
	go func() { r.done <- s.Run(ctx) }()
	synctest.Wait()
	return r
}

// end asks the supervisor to stop and gives what Run returned.
func (r *running) end() error {
	r.stop()
	return <-r.done
}

func (r *running) mustEnd(t *testing.T) {
	t.Helper()
	if err := r.end(); err != nil {
		t.Errorf("Run returned %v, want nil on a clean stop", err)
	}
}

func (r *running) find(t *testing.T, path string) supervisor.Report {
	t.Helper()
	rep := r.Report()
	c, ok := rep.Find(path)
	if !ok {
		t.Fatalf("no %s in the report", path)
	}
	return c
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// ended tells whether Run has returned, and fails the test if it has.
func (r *running) ended(t *testing.T) bool {
	t.Helper()
	select {
	case err := <-r.done:
		t.Errorf("the tree has ended: %v", err)
		return true
	default:
		return false
	}
}
