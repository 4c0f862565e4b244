package supervisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

func TestReportShowsTheWholeTreeBeforeDuringAndAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		a, b := newActor(&j, "a"), newActor(&j, "b")
		s, err := supervisor.New("root", supervisor.Tree{Strategy: supervisor.RestForOne,
			Children: []supervisor.Child{
				a.child(), {Name: "office",
					Tree: &supervisor.Tree{Children: []supervisor.Child{b.child()}}},
			}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		states := func() (got []string) {
			var walk func(r supervisor.Report)
			walk = func(r supervisor.Report) {
				got = append(got, fmt.Sprintf("%s %s %d/%d", r.Path, r.State, r.Incarnation,
					r.Restarts))
				for _, c := range r.Children {
					walk(c)
				}
			}
			walk(s.Report())
			return got
		}
		want(t, states(), "root waiting 0/0", "root/a waiting 0/0", "root/office waiting 0/0",
			"root/office/b waiting 0/0")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		want(t, states(), "root running 1/0", "root/a running 1/0", "root/office running 1/0",
			"root/office/b running 1/0")
		b.now(boom)
		time.Sleep(time.Second)
		synctest.Wait()
		b.now(func() error { panic("ouch") })
		want(t, states(), "root running 1/0", "root/a running 1/0", "root/office running 1/0",
			"root/office/b backoff 2/2")

		text, err := json.Marshal(s.Report())
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{`"strategy":"rest-for-one"`, `"restart":"permanent"`,
			`"kind":"panic","err":"panic: ouch"`, `"next_restart":"2000-01-01T00:00:02Z"`} {
			if !strings.Contains(string(text), part) {
				t.Errorf("no %s in %s", part, text)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		last := []string{"root stopped 1/0", "root/a stopped 1/0", "root/office stopped 1/0",
			"root/office/b stopped 2/2"}
		want(t, states(), last...)
		changed := s.Report()
		changed.Children[0].State = "changed by its reader"
		changed.Children[1].Children[0].State = "changed by its reader"
		want(t, states(), last...)
	})
}

func TestReportAndEventsDoNotWaitForAChildThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "office",
			Tree: &supervisor.Tree{
				Children: []supervisor.Child{hanging("a", letGo)}}}}})
		r.stop()
		time.Sleep(time.Second)
		began := time.Now()
		if s := r.find(t, "root/office/a").State; s != supervisor.StateStopping ||
			time.Since(began) != 0 {
			t.Errorf("state %s after %v", s, time.Since(began))
		}
		close(letGo)
		if err := <-r.done; err != nil {
			t.Error(err)
		}
	})
}

func TestEventsTellTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		a := newActor(&j, "a")
		s, err := supervisor.New("root", supervisor.Tree{MaxRestarts: 1,
			Children: []supervisor.Child{a.child()}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		sub := s.Subscribe(100)
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		synctest.Wait()
		a.now(boom)
		time.Sleep(time.Second)
		synctest.Wait()
		a.now(boom)
		esc := <-done
		sub.Close()
		var got []string
		for e := range sub.All(t.Context()) {
			line := fmt.Sprintf("%s %s %d", e.Path, e.Type, e.Incarnation)
			switch e.Type {
			case supervisor.StepRestarting:
				line += fmt.Sprint(" ", e.After, " ", e.Kind, " ", e.Err)
			case supervisor.StepEscalated:
				if e.Err != esc {
					t.Errorf("escalated with %v", e.Err)
				}
			}
			got = append(got, line)
		}
		slices.Sort(got[1:3]) // the root is ready when a has started, which a does by itself
		want(t, got, "root started 1", "root ready 1", "root/a started 1", "root/a ready 1",
			"root/a ended 1", "root/a restarting 1 1s error boom",
			"root/a started 2", "root/a ready 2", "root/a ended 2", "root escalated 1",
			"root stopping 1", "root stopped 1")
	})
}

func TestASlowReaderLosesTheOldestAndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s, err := supervisor.New("root", supervisor.Tree{MaxRestarts: -1,
			Children: []supervisor.Child{
				{Name: "a", Backoff: every(time.Second), Run: func(context.Context) error {
					n++
					return errBoom
				}}}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		sub := s.Subscribe(7)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second-1)
		defer cancel()
		began := time.Now()
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != 100*time.Second-1 || n != 100 {
			t.Errorf("the reader delayed it: %v, %d runs", d, n)
		}
		events := sub.Pending()
		total := 2 + 3*100 + 2 // root started and ready, three a run, root stopping and stopped
		if len(events) != 7 || events[0].Dropped != uint64(total-7) ||
			events[6].Type != supervisor.StepStopped {
			t.Errorf("%d events, %d dropped, last %s", len(events), events[0].Dropped,
				events[6].Type)
		}
		for _, e := range events[1:] {
			if e.Dropped != 0 {
				t.Errorf("dropped told twice: %+v", e)
			}
		}
		sub.Close()
		sub.Close()
	})
}

func TestGoroutinesCarryTheirPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var path string
		r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "office",
			Tree: &supervisor.Tree{Children: []supervisor.Child{
				{Name: "clerk", Run: func(ctx context.Context) error {
					path = supervisor.Path(ctx)
					<-ctx.Done()
					return nil
				}},
			}}}}})
		if path != "root/office/clerk" {
			t.Errorf("Path is %q", path)
		}
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"root", "root/office", "root/office/clerk"} {
			if !strings.Contains(b.String(), fmt.Sprintf(`"actor":%q`, p)) {
				t.Errorf("no goroutine with the label actor=%s", p)
			}
		}
		r.mustEnd(t)
	})
}

func TestOutsideOfAChildTheContextFunctionsDoNothing(t *testing.T) {
	ctx := t.Context()
	supervisor.Ready(ctx)
	if p, g := supervisor.Path(ctx), supervisor.Of(ctx); p != "" || g != nil {
		t.Errorf("path %q, group %v", p, g)
	}
}

func TestFailuresAreLoggedAndSuccessIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var j journal
		a := newActor(&j, "a")
		s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{a.child()}},
			supervisor.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		if out.Len() != 0 {
			t.Errorf("logged: %s", &out)
		}
		a.now(boom)
		if got := out.String(); !strings.Contains(got,
			"msg=child-failed path=root/a incarnation=1 kind=error err=boom restart_in=1s") {
			t.Errorf("logged: %s", got)
		}
		out.Reset()
		time.Sleep(time.Second)
		cancel()
		if err := <-done; err != nil || out.Len() != 0 {
			t.Errorf("%v, logged: %s", err, &out)
		}
	})
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	run := func(context.Context) error { return nil }
	nest := func(c ...supervisor.Child) supervisor.Tree {
		return supervisor.Tree{Children: []supervisor.Child{{Name: "office",
			Tree: &supervisor.Tree{Children: c}}}}
	}
	for _, c := range []struct {
		name string
		tree supervisor.Tree
		says string
	}{
		{"", supervisor.Tree{}, "root name"},
		{"a/b", supervisor.Tree{}, "root name"},
		{"root", supervisor.Tree{Strategy: 7}, "OneForOne, OneForAll or RestForOne"},
		{"root", supervisor.Tree{Period: -1}, "negative Period"},
		{"root", nest(supervisor.Child{Run: run}), "root/office has no name"},
		{"root", nest(supervisor.Child{Name: "a/b", Run: run}), "must not hold '/'"},
		{"root", nest(supervisor.Child{Name: "a"}), "root/office/a: set one of Child.Run and Child.Tree"},
		{"root", nest(supervisor.Child{Name: "a", Run: run, Tree: &supervisor.Tree{}}),
			"set one of Child.Run and Child.Tree"},
		{"root", nest(supervisor.Child{Name: "a", Run: run, Restart: 9}),
			"Permanent, Transient or Temporary"},
		{"root", nest(supervisor.Child{Name: "a", Run: run, StopTimeout: -1}),
			"negative StopTimeout or HealthyAfter"},
		{"root", nest(supervisor.Child{Name: "a", Run: run, HealthyAfter: -1}),
			"negative StopTimeout or HealthyAfter"},
		{"root", nest(supervisor.Child{Name: "a", Run: run}, supervisor.Child{Name: "a", Run: run}),
			"root/office/a: supervisor: a child of this name exists"},
	} {
		_, err := supervisor.New(c.name, c.tree)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
	_, err := supervisor.New("root", nest(supervisor.Child{Name: "a", Run: run},
		supervisor.Child{Name: "a", Run: run}))
	if !errors.Is(err, supervisor.ErrDuplicate) {
		t.Errorf("%v is not ErrDuplicate", err)
	}
}

func TestRunTwiceAtATimeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, supervisor.Tree{})
		if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(),
			"running already") {
			t.Errorf("got %v", err)
		}
		r.mustEnd(t)
	})
}
