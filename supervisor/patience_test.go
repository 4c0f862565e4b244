package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// hundredHung are children that ignore their context until the func is called, and a first one that
// stops well.
func hundredHung() (children []supervisor.Child, asked *time.Time, free func()) {
	release, asked := make(chan struct{}), new(time.Time)
	children = append(children, supervisor.Child{Name: "good",
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			*asked = time.Now()
			time.Sleep(time.Second)
			return nil
		}})
	for i := range 100 {
		children = append(children, supervisor.Child{Name: fmt.Sprint(i),
			Run: func(context.Context) error { <-release; return nil }})
	}
	return children, asked, func() { close(release) }
}

func TestManyChildrenThatHangDoNotAddUpTheirDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		options []supervisor.Option
		limit   time.Duration
		good    bool // the good one has its whole time
	}{
		"by default": {nil, 40 * time.Second, true},
		"with a deadline": {[]supervisor.Option{supervisor.WithStopTimeout(
			12 * time.Second)}, 12*time.Second + 200*time.Millisecond, false},
		"with one that has no end": {[]supervisor.Option{supervisor.WithStopTimeout(
			supervisor.Unlimited)}, 40 * time.Second, true},
		"with one that is long": {[]supervisor.Option{supervisor.WithStopTimeout(time.Hour)},
			40 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				children, asked, free := hundredHung()
				s, err := supervisor.New("root", supervisor.Tree{Children: children},
					append(c.options, quiet)...)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				begin := time.Now().Add(time.Second)
				err = s.Run(ctx)
				var stuck *supervisor.StuckError
				if took := time.Since(begin); took > c.limit || !errors.As(err, &stuck) {
					t.Errorf("the stop took %v: %.80v", took, err)
				} else if n := len(stuck.Children); n != 100 && c.good || n != 101 && !c.good {
					t.Errorf("%d children are named", n)
				}
				free()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if asked.IsZero() {
					t.Error("the good one was not asked to stop")
				}
			})
		})
	}
}

func TestManyChildrenThatHangDoNotAddUpTheirDeadlinesWhenTheirGroupIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		children, asked, free := hundredHung()
		fails := supervisor.Child{Name: "fails", Run: func(context.Context) error {
			time.Sleep(time.Second)
			return errors.New("it fails")
		}}
		tree := supervisor.Tree{Strategy: supervisor.OneForAll,
			Children: append([]supervisor.Child{fails}, children...)}
		s, err := supervisor.New("root", tree, quiet)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now().Add(time.Second)
		err = s.Run(t.Context())
		var stuck *supervisor.StuckError
		if took := time.Since(begin); took > 40*time.Second || !errors.As(err, &stuck) {
			t.Errorf("it took %v until it gave up: %.80v", took, err)
		}
		if asked.IsZero() {
			t.Error("the good one was not asked to stop")
		}
		free()
		synctest.Wait()
	})
}

// A child that hangs may be in a tree of its own, which ends without it.
func TestManyTreesThatHangDoNotAddUpTheirDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hang := func(context.Context) error { <-release; return nil }
		var offices []supervisor.Child
		for i := range 100 {
			office := &supervisor.Tree{Children: []supervisor.Child{{Name: "hangs", Run: hang}}}
			offices = append(offices, supervisor.Child{Name: fmt.Sprint(i), Tree: office})
		}
		s, err := supervisor.New("root", supervisor.Tree{Children: offices}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now().Add(time.Second)
		err = s.Run(ctx)
		var stuck *supervisor.StuckError
		if took := time.Since(begin); took > 40*time.Second || !errors.As(err, &stuck) {
			t.Errorf("the stop took %v: %.80v", took, err)
		} else if n := len(stuck.Children); n != 100 {
			t.Errorf("%d children are named", n)
		}
		close(release)
		synctest.Wait()
	})
}

func TestAGateThatStaysClosedIsNamedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
		s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{
			{Name: "quick", Gate: true, Run: func(ctx context.Context) error {
				supervisor.Ready(ctx)
				return wait(ctx)
			}},
			{Name: "slow", Gate: true, Run: wait},
			{Name: "after", Run: wait},
		}}, supervisor.WithLogger(log))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if n := len(lines); n < 2 || n > 10 {
			t.Errorf("%d lines in ten minutes: %q", n, lines)
		}
		for _, line := range lines {
			if !strings.Contains(line, "gate-closed path=root/slow") {
				t.Errorf("%q", line)
			}
		}
	})
}

func TestAPanicWhileStoppingLeavesItsTraceWhateverItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s, err := supervisor.New("root",
			supervisor.Tree{Children: []supervisor.Child{{Name: "child",
				Run: func(ctx context.Context) error {
					<-ctx.Done()
					panic(ctx.Err())
				}}}}, supervisor.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Run(ctx)
		if last := s.Report().Children[0].LastCause; last == nil ||
			last.Kind != supervisor.KindPanic || !strings.Contains(text.String(),
			"child-failed-while-stopping") {
			t.Errorf("last cause %v, log %q", last, text.String())
		}
	})
}

// slow takes d to stop.
func slow(name string, timeout, d time.Duration) supervisor.Child {
	return supervisor.Child{Name: name, StopTimeout: timeout, Run: func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(d)
		return nil
	}}
}

func TestAChildWithoutAStopTimeoutIsWaitedForAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, supervisor.Tree{Children: []supervisor.Child{slow("a", supervisor.Unlimited,
			24*time.Hour)}})
		began := time.Now()
		r.mustEnd(t)
		if took := time.Since(began); took != 24*time.Hour {
			t.Errorf("the stop took %v", took)
		}
	})
}

func TestADeadlineAroundAChildWithoutOneIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		tree    time.Duration
		options []supervisor.Option
	}{
		"of its tree": {time.Second, nil},
		"of the root": {0, []supervisor.Option{supervisor.WithStopTimeout(time.Second)}},
		"of the root, no time": {supervisor.Unlimited,
			[]supervisor.Option{supervisor.WithStopTimeout(supervisor.NoWait)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := supervisor.New("root",
					supervisor.Tree{Children: []supervisor.Child{{Name: "tree", StopTimeout: c.tree,
						Tree: &supervisor.Tree{
							Children: []supervisor.Child{slow("a", supervisor.Unlimited,
								time.Hour)},
						}}}}, append(c.options, quiet)...)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = s.Run(ctx)
				var stuck *supervisor.StuckError
				if !errors.As(err, &stuck) || len(stuck.Children) != 1 ||
					time.Since(time.Unix(946684800, 0)) > 3*time.Second {
					t.Errorf("at %v Run returned %.80v", time.Now(), err)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestAChildThatIsNotWaitedForIsAbandonedUnlessItStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, supervisor.Tree{Children: []supervisor.Child{
			slow("quick", supervisor.NoWait, 0), slow("slow", supervisor.NoWait, time.Second),
		}})
		began := time.Now()
		err := r.end()
		var stuck *supervisor.StuckError
		if !errors.As(err, &stuck) || len(stuck.Children) != 1 ||
			stuck.Children[0].Path != "root/slow" || time.Since(began) > time.Millisecond {
			t.Errorf("after %v Run returned %.80v", time.Since(began), err)
		}
		time.Sleep(2 * time.Second)
	})
}

// A child that was being removed already when the stop began had held up nobody until then.
func TestAChildThatHangsHoldsUpTheOthersOnlyFromItsTurnOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		free := make(chan struct{})
		slow := func(name string) supervisor.Child {
			return supervisor.Child{Name: name, StopTimeout: time.Minute,
				Run: func(ctx context.Context) error {
					<-ctx.Done()
					j.add("?" + name)
					time.Sleep(20 * time.Second)
					j.add("-" + name)
					return nil
				}}
		}
		hangs := supervisor.Child{Name: "hangs", StopTimeout: 35 * time.Second,
			Run: func(context.Context) error { <-free; return nil }}
		r, g := startGroup(t, supervisor.Tree{
			Children: []supervisor.Child{slow("a"), slow("b"), hangs}})
		h, _ := g.Child("hangs")
		h.Stop()
		time.Sleep(34 * time.Second)
		synctest.Wait()
		err := r.end()
		var stuck *supervisor.StuckError
		if !errors.As(err, &stuck) {
			t.Error(err)
		}
		want(t, j.take(), "?b", "-b", "?a", "-a")
		close(free)
		synctest.Wait()
	})
}
