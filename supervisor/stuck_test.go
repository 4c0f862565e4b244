package supervisor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// hang ignores its context until let go, with a helper goroutine of its own.
//
//go:noinline
func hang(letGo <-chan struct{}) {
	helper := make(chan struct{})
	go helpToHang(letGo, helper)
	<-helper
}

//go:noinline
func helpToHang(letGo <-chan struct{}, done chan struct{}) {
	<-letGo
	close(done)
}

func hanging(name string, letGo <-chan struct{}) supervisor.Child {
	return supervisor.Child{Name: name, StopTimeout: 2 * time.Second, Backoff: every(time.Second),
		Run: func(context.Context) error {
			hang(letGo)
			return nil
		}}
}

func twinClerk(letGo <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		<-letGo
		return ctx.Err()
	}
}

func stuckOf(t *testing.T, err error) *supervisor.StuckError {
	t.Helper()
	var stuck *supervisor.StuckError
	if !errors.As(err, &stuck) {
		t.Fatalf("%v is not a StuckError", err)
	}
	return stuck
}

func TestAChildThatWillNotStopIsNamedWithItsStackAndKeepsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		letGo := make(chan struct{})
		other := make(chan struct{}) // another tree of the same name, whose stack is not to be told
		twin := start(t,
			supervisor.Tree{Children: []supervisor.Child{{Name: "office",
				Tree: &supervisor.Tree{Children: []supervisor.Child{
					{Name: "clerk", Run: twinClerk(other)},
				}}}}})
		first := newActor(&j, "first").child()
		first.Gate = true
		r := start(t, supervisor.Tree{Children: []supervisor.Child{
			first,
			{Name: "office", Tree: &supervisor.Tree{Children: []supervisor.Child{hanging("clerk",
				letGo)}}},
			newActor(&j, "last").child(),
		}})
		sub := r.Subscribe(100)
		defer sub.Close()
		began := time.Now()
		err := r.end()
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("Run returned after %v, want its StopTimeout, 2s", d)
		}
		stuck := stuckOf(t, err)
		if len(stuck.Children) != 1 {
			t.Fatalf("%d children, want 1: %v", len(stuck.Children), err)
		}
		s := stuck.Children[0]
		if s.Path != "root/office/clerk" || s.Waited != 2*time.Second {
			t.Errorf("%s, waited %v", s.Path, s.Waited)
		}
		for _, f := range []string{"supervisor_test.hang+", "supervisor_test.helpToHang+"} {
			if !strings.Contains(s.Stack, f) {
				t.Errorf("no %s in the stack:\n%s", f, s.Stack)
			}
		}
		if strings.Contains(s.Stack, "twinClerk") {
			t.Errorf("a stack of another tree:\n%s", s.Stack)
		}
		if !strings.Contains(err.Error(), "root/office/clerk") {
			t.Errorf("the message does not name it: %v", err)
		}
		want(t, j.take(), "+first", "+last", "-last", "-first")
		if s := r.find(t, "root/office/clerk").State; s != supervisor.StateStuck {
			t.Errorf("state of the clerk is %s, want stuck", s)
		}

		// No second one runs beside it.
		if again := stuckOf(t, r.Run(t.Context())); again.Children[0].Path != s.Path {
			t.Errorf("Run again: %v", again)
		}
		close(letGo)
		synctest.Wait()
		var types []supervisor.StepType
		for _, e := range sub.Pending() {
			if e.Path == "root/office/clerk" {
				types = append(types, e.Type)
			}
		}
		if len(types) != 3 || types[1] != supervisor.StepStuck ||
			types[2] != supervisor.StepEndedLate {
			t.Errorf("events %v", types)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run after it has ended: %v", err)
		}
		close(other)
		twin.mustEnd(t)
	})
}

func TestAGroupIsNotRestartedBesideAnAbandonedChild(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForAll, supervisor.RestForOne} {
		t.Run(strategy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				letGo := make(chan struct{})
				a := newActor(&j, "a")
				r := start(t, supervisor.Tree{Strategy: strategy,
					Children: []supervisor.Child{a.child(), hanging("b", letGo)}})
				defer r.stop()
				a.now(boom)
				err := <-r.done
				var esc *supervisor.EscalationError
				if !errors.As(err, &esc) || !errors.Is(err, errBoom) {
					t.Errorf("Run returned %v, want an escalation with the failure that began it",
						err)
				}
				if s := stuckOf(t, err); s.Children[0].Path != "root/b" {
					t.Errorf("stuck: %v", s)
				}
				if r.find(t, "root/b").Incarnation != 1 {
					t.Error("a second incarnation ran beside the first")
				}
				close(letGo)
			})
		})
	}
}

func TestAGroupIsRestartedWhenTheAbandonedChildEndedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		letGo := make(chan struct{})
		a := newActor(&j, "a")
		child := a.child()
		child.Backoff = every(time.Minute)
		b := supervisor.Child{Name: "b", Run: func(ctx context.Context) error {
			<-letGo
			<-ctx.Done()
			return nil
		}}
		r := start(t, supervisor.Tree{Strategy: supervisor.OneForAll,
			Children: []supervisor.Child{child, b}})
		a.now(boom)
		time.Sleep(30 * time.Second)
		close(letGo)
		synctest.Wait()
		if s := r.find(t, "root/b").State; s != supervisor.StateWaiting {
			t.Errorf("state %s, want waiting for its group", s)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		want(t, j.take(), "+a", "-a", "+a")
		r.mustEnd(t)
	})
}

func TestATreeThatLeftAChildBehindIsNotRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		var j journal
		a := newActor(&j, "a")
		r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "office",
			Backoff: every(time.Second), Tree: &supervisor.Tree{
				MaxRestarts: 1, Children: []supervisor.Child{hanging("b", letGo), a.child()},
			}}}})
		defer r.stop()
		a.now(boom)
		time.Sleep(time.Second)
		synctest.Wait()
		a.now(boom) // the office gives up and has to abandon b
		err := <-r.done
		if s := stuckOf(t, err); s.Children[0].Path != "root/office/b" || !errors.Is(err, errBoom) {
			t.Errorf("Run returned %v", err)
		}
		if rep := r.find(t, "root/office"); rep.Incarnation != 1 {
			t.Errorf("office is in incarnation %d", rep.Incarnation)
		}
		close(letGo)
	})
}

func TestATreesOwnDeadlineEndsItWithThoseWhoHangNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		letGo := make(chan struct{})
		patient := hanging("patient", letGo)
		patient.StopTimeout = time.Hour
		r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "outer",
			StopTimeout: 3 * time.Second, Tree: &supervisor.Tree{
				Children: []supervisor.Child{{Name: "inner", Tree: &supervisor.Tree{
					Children: []supervisor.Child{newActor(&j, "willing").child(), patient},
				}}},
			}}}})
		began := time.Now()
		err := r.end()
		if d := time.Since(began); d != 3*time.Second+100*time.Millisecond {
			t.Errorf("took %v", d)
		}
		if s := stuckOf(t, err); len(s.Children) != 1 ||
			s.Children[0].Path != "root/outer/inner/patient" {
			t.Errorf("Run returned %v", err)
		}
		want(t, j.take(), "+willing", "-willing")
		close(letGo)
	})
}
