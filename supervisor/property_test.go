package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/supervisor"
)

// life is how one incarnation of a child goes. Durations are drawn so that they
// often fall on the same instant as someone else's.
type life struct {
	ready time.Duration // until it calls Ready
	run   time.Duration // until it ends by itself; 0: it does not
	way   int           // how it ends then
	stop  time.Duration // how long it takes to stop
	panic bool          // it panics then
	spawn bool          // starts a dynamic sibling
	dyn   supervisor.Restart
	deep  bool // that one is a tree
	hangs bool // that one, or what is inside, is abandoned, and panics then
	gate  bool // that one has one, at which something waits when its group is restarted
}

type spec struct {
	strategy supervisor.Strategy
	limit    int
	together bool
	stop     time.Duration // for all of it; 0: no deadline
	children []childSpec
}

type childSpec struct {
	name    string
	restart supervisor.Restart
	gate    bool
	lives   []life
	tree    *spec
}

const patience = 3 * time.Second

// drawSpec draws a tree. In hurry it may have a deadline, and so may those inside.
func drawSpec(d testkit.Dice, depth int, hurry bool) *spec {
	s := &spec{
		strategy: testkit.Pick(d, supervisor.OneForOne, supervisor.OneForAll,
			supervisor.RestForOne),
		limit:    testkit.Pick(d, -1, 1, 3),
		together: d.Bool(),
	}
	if hurry {
		s.stop = testkit.Pick(d, 0, 1, time.Second, 5*time.Second)
	}
	for i := range 1 + d.Few(3) {
		c := childSpec{
			name: string(rune('a' + i)),
			restart: testkit.Pick(d, supervisor.Permanent, supervisor.Transient,
				supervisor.Temporary),
			gate: d.Bool(),
		}
		if depth > 0 && d.IntN(3) == 0 {
			c.tree = drawSpec(d, depth-1, hurry)
		} else {
			for range d.Few(4) {
				c.lives = append(c.lives, drawLife(d))
			}
		}
		s.children = append(s.children, c)
	}
	return s
}

func drawLife(d testkit.Dice) life {
	second := func(most int) time.Duration { return time.Duration(d.IntN(most+1)) * time.Second }
	return life{ready: second(2), run: second(4), way: d.IntN(6), spawn: d.Bool(),
		dyn: testkit.Pick(d, supervisor.Transient, supervisor.Temporary), deep: d.Bool(),
		hangs: d.Bool(), gate: d.Bool(), panic: d.Bool(),
		stop: testkit.Pick(d, 0, 0, time.Second, 2*time.Second, 8*time.Second)}
}

// witness watches the children from inside and notes what must not be.
type witness struct {
	hurry   bool // nobody has to be stopped in order, for there are deadlines
	mu      sync.Mutex
	running map[string]int
	asked   map[string]time.Time
	lives   map[string]int
	faults  []string

	restarts map[string]supervisor.Restart
	gates    map[string]bool
	over     map[supervisor.Group]time.Time // since when an Escalate is to stop a tree
}

// escalate notes that a child does so.
func (w *witness) escalate(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := *supervisor.Of(ctx); ctx.Err() == nil {
		w.over[g] = time.Now()
		context.AfterFunc(ctx, func() {
			if context.Cause(ctx) == context.Canceled {
				return // its end is that of the child
			}
			w.mu.Lock() // it was asked to stop at the same moment
			defer w.mu.Unlock()
			delete(w.over, g)
		})
	}
	return supervisor.Escalate(errBoom)
}

// began checks that nothing is started in a tree that is to be stopped.
func (w *witness) began(ctx context.Context, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.over[*supervisor.Of(ctx)]; ok && time.Now().After(at) {
		w.faultf("%s is started %v after its tree was to be stopped", path, time.Since(at))
	}
}

func (w *witness) faultf(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *witness) untold(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultf("%s is not told why it is stopped", path)
}

func (w *witness) start(path string, lives []life) life {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[path]++; w.running[path] > 1 {
		w.faultf("%s runs %d times at once", path, w.running[path])
	}
	delete(w.asked, path)
	n := w.lives[path]
	w.lives[path]++
	if n < len(lives) {
		return lives[n]
	}
	return life{}
}

func (w *witness) end(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[path]--; w.running[path] == 0 {
		delete(w.running, path)
	}
}

// stopping checks that nobody later in the order is running, but for those who
// had their time.
func (w *witness) stopping(path string, later []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[path] = time.Now()
	if w.hurry {
		return
	}
	for _, l := range later {
		for p := range w.running {
			if p != l && !strings.HasPrefix(p, l+"/") {
				continue
			}
			if at, ok := w.asked[p]; !ok || time.Since(at) < patience {
				w.faultf("%s is asked to stop while %s runs", path, p)
			}
		}
	}
}

func (w *witness) build(path string, s *spec) supervisor.Tree {
	tree := supervisor.Tree{Strategy: s.strategy, MaxRestarts: s.limit, StopTogether: s.together}
	for i, c := range s.children {
		var later []string
		if !s.together {
			for _, l := range s.children[i+1:] {
				later = append(later, path+"/"+l.name)
			}
			later = append(later, path+"/dyn") // stopped before all others
		}
		p := path + "/" + c.name
		w.restarts[p], w.gates[p] = c.restart, c.gate
		child := supervisor.Child{Name: c.name, Restart: c.restart, Gate: c.gate,
			Backoff: every(time.Second)}
		if c.tree != nil {
			t := w.build(p, c.tree)
			child.Tree, child.StopTimeout = &t, c.tree.stop
		} else {
			child.StopTimeout = patience
			child.Run = w.actor(p, c.lives, later)
		}
		tree.Children = append(tree.Children, child)
	}
	return tree
}

func (w *witness) actor(path string, lives []life, later []string) func(context.Context) error {
	return func(ctx context.Context) error {
		l := w.start(path, lives)
		w.began(ctx, path)
		defer w.end(path)
		if supervisor.Path(ctx) != path {
			w.faultf("Path of %s is %s", path, supervisor.Path(ctx))
		}
		if l.spawn {
			dyn := strings.TrimSuffix(path, path[strings.LastIndexByte(path, '/'):]) + "/dyn"
			_, err := supervisor.Of(ctx).Start(w.dynamic(dyn, l))
			if err != nil && !errors.Is(err, supervisor.ErrDuplicate) &&
				!errors.Is(err, supervisor.ErrStopped) {
				w.faultf("start of a dynamic child: %v", err)
			}
		}
		ready := time.AfterFunc(l.ready, func() { supervisor.Ready(ctx) })
		defer ready.Stop()
		var over <-chan time.Time
		if l.run > 0 {
			over = time.After(l.run)
		}
		select {
		case <-over:
			return []func() error{
				func() error { return nil }, boom, func() error { panic(nil) }, func() error {
					runtime.Goexit()
					return nil
				},
				func() error { return context.DeadlineExceeded },
				func() error { return w.escalate(ctx) },
			}[l.way]()
		case <-ctx.Done():
			if context.Cause(ctx) == context.Canceled {
				w.untold(path)
			}
			w.stopping(path, later)
			time.Sleep(l.stop)
			if l.panic {
				panic("while it stops")
			}
			return errBoom
		}
	}
}

// dynamic is the child at that path which one with such a life starts.
func (w *witness) dynamic(path string, l life) supervisor.Child {
	lives := []life{{run: 2 * time.Second, way: 1}, {run: time.Second, stop: time.Second}}
	if l.hangs {
		lives = slices.Repeat([]life{{ready: time.Minute, stop: 8 * time.Second, panic: true}}, 5)
	}
	w.mu.Lock()
	if was, ok := w.restarts[path]; !ok || was == supervisor.Temporary { // all of them
		w.restarts[path] = l.dyn
	}
	w.mu.Unlock()
	c := supervisor.Child{Name: "dyn", Restart: l.dyn, Gate: l.gate, Backoff: every(time.Second)}
	leaf := supervisor.Child{Name: "leaf", StopTimeout: patience, Backoff: every(time.Second)}
	if l.deep {
		leaf.Run = w.actor(path+"/leaf", lives, nil)
		c.Tree = &supervisor.Tree{Children: []supervisor.Child{leaf}}
	} else {
		c.StopTimeout, c.Run = patience, w.actor(path, lives, nil)
	}
	return c
}

// Whatever the children do: no two incarnations of one overlap, they stop in
// reverse order, Run returns, and what it returns is the truth.
func TestAnyTreeKeepsItsGuarantees(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		hurry := d.Bool()
		s := drawSpec(d, 2, hurry)
		stopAfter := time.Duration(d.IntN(31)) * time.Second
		const whole = 40 * (patience + 8*time.Second) // for a stop
		if d.Bool() {
			stopAfter = 3 * whole
		}
		w := &witness{hurry: hurry, running: map[string]int{}, asked: map[string]time.Time{},
			lives: map[string]int{}, restarts: map[string]supervisor.Restart{},
			gates: map[string]bool{}, over: map[supervisor.Group]time.Time{}}
		tree := w.build("root", s)
		sup, err := supervisor.New("root", tree, quiet, supervisor.WithStopTimeout(s.stop))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stopAfter)
			defer cancel()
			began := time.Now()
			err := sup.Run(ctx)
			synctest.Wait() // Run waits for no context.AfterFunc, of which the witness has some
			w.mu.Lock()
			defer w.mu.Unlock()
			most := stopAfter + whole
			if s.stop > 0 {
				most = stopAfter + s.stop + 100*time.Millisecond
			}
			for _, at := range w.over {
				most = min(most, at.Sub(began)+whole)
			}
			if took := time.Since(began); took > most {
				w.faultf("Run took %v, at most %v", took, most)
			}
			var esc *supervisor.EscalationError
			if len(w.over) > 0 && !errors.As(err, &esc) {
				w.faultf("Run returned %v, and a child has escalated", err)
			}
			w.checkEnd(err)
			w.checkReport(sup.Report(), false)
			// Those who hang go on for a while.
			w.mu.Unlock()
			time.Sleep(time.Minute)
			w.mu.Lock()
			if len(w.running) > 0 {
				w.faultf("still running at the end: %v", w.running)
			}
			w.checkCounters(sup.Counters())
		})
		for _, f := range w.faults {
			t.Error(f)
		}
	})
}
