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

	"github.com/coordd/coordd/supervisor"
	"pgregory.net/rapid"
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
	deep  bool   // that one is a tree
	hangs bool   // that one, or what is inside, is abandoned, and panics then
	again string // the sibling that it has restarted
}

type spec struct {
	strategy supervisor.Strategy
	limit    int
	together bool
	auto     supervisor.AutoShutdown
	children []childSpec
}

type childSpec struct {
	name    string
	restart supervisor.Restart
	gate    bool
	counts  bool // as significant
	lives   []life
	tree    *spec
}

const patience = 3 * time.Second

func drawSpec(t *rapid.T, depth int) *spec {
	s := &spec{
		strategy: rapid.SampledFrom([]supervisor.Strategy{supervisor.OneForOne,
			supervisor.OneForAll, supervisor.RestForOne}).Draw(t, "strategy"),
		limit:    rapid.SampledFrom([]int{-1, 1, 3}).Draw(t, "limit"),
		together: rapid.Bool().Draw(t, "together"),
		auto: rapid.SampledFrom([]supervisor.AutoShutdown{
			supervisor.Never, supervisor.AnySignificant, supervisor.AllSignificant,
			supervisor.AllDone,
		}).Draw(t, "auto shutdown"),
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "children") {
		c := childSpec{
			name: string(rune('a' + i)),
			restart: rapid.SampledFrom([]supervisor.Restart{supervisor.Permanent,
				supervisor.Transient, supervisor.Temporary}).Draw(t, "restart"),
			gate: rapid.Bool().Draw(t, "gate"),
		}
		if c.restart != supervisor.Permanent && (s.auto == supervisor.AnySignificant ||
			s.auto == supervisor.AllSignificant) {
			c.counts = rapid.Bool().Draw(t, "significant")
		}
		if depth > 0 && rapid.IntRange(0, 2).Draw(t, "nested") == 0 {
			c.tree = drawSpec(t, depth-1)
		} else {
			c.lives = rapid.SliceOfN(rapid.Custom(drawLife), 0, 4).Draw(t, "lives")
		}
		s.children = append(s.children, c)
	}
	return s
}

func drawLife(t *rapid.T) life {
	second := func(from, to int, name string) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, name)) * time.Second
	}
	l := life{ready: second(0, 2, "ready"), run: second(0, 4, "run"), way: rapid.IntRange(0,
		6).Draw(t, "way"), spawn: rapid.Bool().Draw(t, "spawn")}
	l.dyn = rapid.SampledFrom([]supervisor.Restart{supervisor.Transient,
		supervisor.Temporary}).Draw(t, "dynamic")
	l.deep, l.hangs = rapid.Bool().Draw(t, "deep"), rapid.Bool().Draw(t, "hangs")
	l.panic = rapid.Bool().Draw(t, "panic")
	l.again = rapid.SampledFrom([]string{"", "", "", "a", "b", "dyn"}).Draw(t, "again")
	l.stop = rapid.SampledFrom([]time.Duration{0, 0, time.Second, 2 * time.Second,
		8 * time.Second}).Draw(t, "stop")
	return l
}

// witness watches the children from inside and notes what must not be.
type witness struct {
	mu      sync.Mutex
	running map[string]int
	asked   map[string]time.Time
	lives   map[string]int
	faults  []string
	byHand  map[string]bool // restarted so
	done    map[sibling]bool

	restarts map[string]supervisor.Restart
	gates    map[string]bool
	over     map[*supervisor.Group]time.Time // since when a supervisor's tree is to be stopped
}

// sibling is a child of one incarnation of a supervisor.
type sibling struct {
	group *supervisor.Group
	path  string
}

// ask notes what a child asks for by its end.
func (w *witness) ask(ctx context.Context, path string, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return err
	}
	g := supervisor.Of(ctx)
	if err == supervisor.ErrTerminate {
		w.over[g] = time.Now()
	} else {
		w.done[sibling{g, path}] = true
	}
	context.AfterFunc(ctx, func() {
		if context.Cause(ctx) == context.Canceled {
			return // its end is that of the child
		}
		w.mu.Lock() // it was asked to stop at the same moment
		defer w.mu.Unlock()
		delete(w.over, g)
		delete(w.done, sibling{g, path})
	})
	return err
}

// began checks that nothing is begun again that has asked not to be.
func (w *witness) began(ctx context.Context, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := supervisor.Of(ctx)
	if name := path[strings.LastIndexByte(path, '/')+1:]; w.done[sibling{g, path}] &&
		!w.byHand[name] && name != "dyn" {
		w.faultf("%s is started again, and was done", path)
	}
	if at, ok := w.over[g]; ok && time.Now().After(at) {
		w.faultf("%s is started %v after its tree was to be stopped", path, time.Since(at))
	}
}

// restart has a sibling restarted by hand a second from now, and again at the end.
func (w *witness) restart(ctx context.Context, name string) (end func()) {
	w.mu.Lock()
	w.byHand[name] = true
	w.mu.Unlock()
	g := supervisor.Of(ctx)
	ask := func() {
		err := g.Restart(context.WithoutCancel(ctx), name)
		var stuck *supervisor.StuckError
		if err == nil || errors.Is(err, supervisor.ErrStopped) ||
			errors.Is(err, supervisor.ErrUnknown) ||
			errors.As(err, &stuck) && len(stuck.Children) > 0 {
			return
		}
		if !strings.Contains(err.Error(), "cannot wait for its own end") {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.faultf("restart of %s: %v", name, err)
		}
	}
	t := time.AfterFunc(time.Second, ask)
	return func() { t.Stop(); go ask() }
}

func (w *witness) faultf(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
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
	tree := supervisor.Tree{Strategy: s.strategy, MaxRestarts: s.limit, StopTogether: s.together,
		AutoShutdown: s.auto}
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
			Significant: c.counts, Backoff: every(time.Second)}
		if c.tree != nil {
			t := w.build(p, c.tree)
			child.Tree = &t
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
		if l.again != "" {
			defer w.restart(ctx, l.again)()
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
				func() error { return w.ask(ctx, path, supervisor.ErrDoNotRestart) },
				func() error { return w.ask(ctx, path, supervisor.ErrTerminate) },
			}[l.way]()
		case <-ctx.Done():
			if context.Cause(ctx) == supervisor.ErrRestarted { // by hand, alone
				later = nil
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
		lives = slices.Repeat([]life{{stop: 8 * time.Second, panic: true}}, 5)
	}
	c := supervisor.Child{Name: "dyn", Restart: l.dyn, Backoff: every(time.Second)}
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
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSpec(rt, 2)
		stopAfter := time.Duration(rapid.IntRange(0, 30).Draw(rt, "stop after")) * time.Second
		w := &witness{running: map[string]int{}, asked: map[string]time.Time{},
			lives: map[string]int{}, byHand: map[string]bool{}, done: map[sibling]bool{},
			restarts: map[string]supervisor.Restart{}, gates: map[string]bool{},
			over: map[*supervisor.Group]time.Time{}}
		tree := w.build("root", s)
		sup, err := supervisor.New("root", tree, quiet)
		if err != nil {
			rt.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stopAfter)
			defer cancel()
			began := time.Now()
			err := sup.Run(ctx)
			w.mu.Lock()
			defer w.mu.Unlock()
			if took, most := time.Since(began), stopAfter+40*(patience+8*time.Second); took > most {
				w.faultf("Run took %v, at most %v", took, most)
			}
			w.checkEnd(err, s.auto != supervisor.Never)
			w.checkReport(sup.Report(), false, supervisor.StateStuck)
			// Those who hang go on for a while.
			w.mu.Unlock()
			time.Sleep(time.Minute)
			w.mu.Lock()
			if len(w.running) > 0 {
				w.faultf("still running at the end: %v", w.running)
			}
			w.checkReport(sup.Report(), false, "")
			w.checkCounters(sup.Counters())
		})
		for _, f := range w.faults {
			rt.Error(f)
		}
	})
}

// checkEnd compares what Run returned with what is still running. byItself says that a child's
// failure may be returned as it is.
func (w *witness) checkEnd(err error, byItself bool) {
	var stuck *supervisor.StuckError
	named := map[string]bool{}
	if errors.As(err, &stuck) {
		for _, c := range stuck.Children {
			named[c.Path] = true
			if !strings.Contains(c.Stack, "(*witness).actor") {
				w.faultf("%s is named without its stack: %s", c.Path, c.Stack)
			}
		}
	}
	for p := range w.running {
		if !named[p] {
			w.faultf("%s still runs and is not named in %v", p, err)
		}
	}
	var esc *supervisor.EscalationError
	if errors.As(err, &esc) {
		for _, c := range esc.History() {
			if inner, ok := c.Err.(*supervisor.StuckError); ok && c.Kind == supervisor.KindStuck {
				w.checkStuck(c.Path, inner)
			}
			if c.Path == "" || c.Incarnation == 0 || c.When.IsZero() ||
				c.Err == nil && c.Kind != supervisor.KindNil {
				w.faultf("incomplete cause %+v", c)
			}
		}
		if len(esc.History()) == 0 {
			w.faultf("escalation without a cause")
		}
	}
	if err != nil && esc == nil && stuck == nil && !byItself {
		w.faultf("Run returned %v", err)
	}
}

// checkStuck is for a supervisor that gave up because a child that is to be restarted hangs.
func (w *witness) checkStuck(path string, err *supervisor.StuckError) {
	if len(err.Children) == 0 {
		w.faultf("%s is stuck, and nobody is named", path)
	}
	if restart, ok := w.restarts[path]; ok && restart == supervisor.Temporary && !w.gates[path] {
		w.faultf("%s is temporary, and its tree gave up because it hangs: %v", path, err)
	}
}

// checkCounters wants nobody left out, and no dynamic child by its name when all are gone.
func (w *witness) checkCounters(c supervisor.Counters) {
	var sum supervisor.Counts
	for path, n := range c.Children {
		addCounts(&sum, n)
		if strings.Contains(path+"/", "/dyn/") {
			w.faultf("%s is gone, and has counts: %+v", path, n)
		}
	}
	for _, n := range c.Removed {
		addCounts(&sum, n)
	}
	if sum != c.Total {
		w.faultf("the counts make %+v, and the total is %+v", sum, c.Total)
	}
}

func addCounts(sum *supervisor.Counts, n supervisor.Counts) {
	sum.Restarts += n.Restarts
	sum.Panics += n.Panics
	sum.Escalations += n.Escalations
	sum.Abandoned += n.Abandoned
}

// checkReport wants everything at rest. What is inside of a child that never
// started waits for ever; lasts is a state in which who hangs may be.
func (w *witness) checkReport(r supervisor.Report, never bool, lasts supervisor.State) {
	switch r.State {
	case supervisor.StateStopped, supervisor.StateDone, supervisor.StateFailed, lasts:
	default:
		if !never {
			w.faultf("%s is %s after the end", r.Path, r.State)
		}
	}
	if r.Restart == supervisor.Temporary && r.Incarnation > 1 && !w.byHand[r.Name] {
		w.faultf("%s is temporary and ran %d times", r.Path, r.Incarnation)
	}
	for _, c := range r.Children {
		w.checkReport(c, never || r.Incarnation == 0, lasts)
	}
}
