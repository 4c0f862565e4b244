package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/coordd/coordd/supervisor"
)

func TestMoreThanMaxRestartsWithinPeriodEscalate(t *testing.T) {
	for _, c := range []struct {
		name  string
		pause time.Duration // between two failures
		fails int
		gives bool
	}{
		{"as many as allowed", time.Second, 3, false},
		{"one more", time.Second, 4, true},
		{"the fourth when the first is just in the period", 20*time.Second - 1, 4, true},
		{"the fourth when the first is just out of it", 20 * time.Second, 4, false},
		{"slow for ever", 20 * time.Second, 50, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				a, b := newActor(&j, "a"), newActor(&j, "b")
				child := a.child()
				child.Backoff = every(0)
				r := start(t, supervisor.Tree{MaxRestarts: 3, Period: time.Minute,
					Children: []supervisor.Child{child, b.child()}})
				for i := range c.fails {
					if i > 0 {
						time.Sleep(c.pause)
					}
					a.now(boom)
				}
				select {
				case err := <-r.done:
					var esc *supervisor.EscalationError
					if !c.gives || !errors.As(err, &esc) || len(esc.Causes) != 4 {
						t.Errorf("Run returned %v", err)
					}
					r.stop()
				default:
					if c.gives {
						t.Error("did not give up")
					}
					r.mustEnd(t)
				}
				lines := j.take()
				if n := len(lines); n%2 != 0 || lines[n-1] != "-b" && c.gives {
					t.Errorf("it returned before all had stopped: %q", lines)
				}
			})
		})
	}
}

func TestANegativeMaxRestartsNeverEscalatesAndKeepsABoundedHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := start(t, supervisor.Tree{MaxRestarts: -1, Period: time.Hour,
			Children: []supervisor.Child{
				{Name: "a", Backoff: every(time.Millisecond), Run: func(context.Context) error {
					if n++; n == 5000 {
						return supervisor.Escalate(errBoom)
					}
					return fmt.Errorf("failure %d", n)
				}},
			}})
		defer r.stop()
		var esc *supervisor.EscalationError
		if err := <-r.done; !errors.As(err, &esc) || len(esc.Causes) != 101 ||
			esc.Causes[99].Err.Error() != "failure 4999" {
			t.Errorf("%d causes: %v", len(esc.Causes), err)
		}
	})
}

// three levels: the root restarts the office, which restarts the desk, which
// restarts the clerk, each once.
func threeLevels(clerk func(context.Context) error) supervisor.Tree {
	nap := every(time.Second)
	return supervisor.Tree{MaxRestarts: 1, Children: []supervisor.Child{{Name: "office",
		Backoff: nap, Tree: &supervisor.Tree{
			MaxRestarts: 1, Children: []supervisor.Child{{Name: "desk", Backoff: nap,
				Tree: &supervisor.Tree{
					MaxRestarts: 1, Children: []supervisor.Child{{Name: "clerk", Backoff: nap,
						Run: clerk}},
				}}},
		}}}}
}

func TestEscalationThroughThreeLevelsCarriesTheWholeHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := start(t, threeLevels(func(context.Context) error {
			n++
			return fmt.Errorf("failure %d: %w", n, errBoom)
		}))
		defer r.stop()
		err := <-r.done
		if n != 8 {
			t.Errorf("the clerk ran %d times, want 2*2*2", n)
		}
		var esc *supervisor.EscalationError
		if !errors.As(err, &esc) || !errors.Is(err, errBoom) {
			t.Fatalf("Run returned %v", err)
		}
		var got []string
		for i, c := range esc.History() {
			what := ""
			if c.Path == "root/office/desk/clerk" {
				what = " " + c.Err.Error()
			}
			got = append(got, fmt.Sprintf("%s#%d%s", c.Path, c.Incarnation, what))
			if i > 0 && c.When.Before(esc.History()[i-1].When) {
				t.Errorf("cause %d is older than the one before it", i)
			}
		}
		want(t, got,
			"root/office/desk/clerk#1 failure 1: boom", "root/office/desk/clerk#2 failure 2: boom",
			"root/office/desk#1",
			"root/office/desk/clerk#1 failure 3: boom", "root/office/desk/clerk#2 failure 4: boom",
			"root/office/desk#2", "root/office#1",
			"root/office/desk/clerk#1 failure 5: boom", "root/office/desk/clerk#2 failure 6: boom",
			"root/office/desk#1",
			"root/office/desk/clerk#1 failure 7: boom", "root/office/desk/clerk#2 failure 8: boom",
			"root/office/desk#2", "root/office#2",
		)
		if text := err.Error(); strings.Contains(text, "\n") ||
			!strings.HasSuffix(text, "failure 8: boom") {
			t.Errorf("not one line down to the last cause: %s", text)
		}
		if s := r.Report().State; s != supervisor.StateFailed {
			t.Errorf("state of the root %s, want failed", s)
		}
	})
}

func TestEscalateGoesToTheRootAtOnce(t *testing.T) {
	for name, wrap := range map[string]func(error) error{
		"plain":   func(err error) error { return err },
		"wrapped": func(err error) error { return fmt.Errorf("the clerk: %w", err) },
		"joined":  func(err error) error { return errors.Join(errors.New("other"), err) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				began := time.Now()
				r := start(t, threeLevels(func(context.Context) error {
					if n++; n == 2 {
						return wrap(supervisor.Escalate(errBoom))
					}
					return errors.New("an earlier failure")
				}))
				defer r.stop()
				err := <-r.done
				if n != 2 || time.Since(began) != time.Second {
					t.Errorf("the clerk ran %d times in %v", n, time.Since(began))
				}
				var esc *supervisor.EscalationError
				if !errors.Is(err, errBoom) || !errors.As(err, &esc) {
					t.Fatalf("Run returned %v", err)
				}
				if h := esc.History(); len(h) != 4 || h[0].Err.Error() != "an earlier failure" ||
					h[3].Path != "root/office" {
					t.Errorf("history %v", h)
				}
			})
		})
	}
	if supervisor.Escalate(nil) != nil {
		t.Error("Escalate(nil) is not nil")
	}
}

func TestEscalateEndsWithTheTreeThatItWasMeantFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "embedded",
			Backoff: every(time.Second), Run: func(ctx context.Context) error {
				if n++; n == 2 {
					<-ctx.Done()
					return nil
				}
				inner, err := supervisor.New("inner", supervisor.Tree{Children: []supervisor.Child{
					{Name: "a", Run: func(context.Context) error {
						return supervisor.Escalate(errBoom)
					}},
				}}, quiet)
				if err != nil {
					return err
				}
				return inner.Run(ctx)
			}}}})
		time.Sleep(2 * time.Second)
		r.mustEnd(t)
		if n != 2 {
			t.Errorf("the embedding child ran %d times, want restarted once", n)
		}
	})
}

func TestAnEscalationWhileStoppingIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "a",
			Run: func(ctx context.Context) error {
				<-ctx.Done()
				return supervisor.Escalate(ctx.Err())
			}}}})
		r.mustEnd(t)
	})
}

func TestABackoffPolicyThatGivesUpEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		r := start(t, supervisor.Tree{Children: []supervisor.Child{newActor(&j, "a").child(),
			{Name: "b", Run: func(context.Context) error { return errBoom },
				Backoff: func() supervisor.Backoff { return &backoff.StopBackOff{} }}}})
		defer r.stop()
		if err := <-r.done; !errors.Is(err, errBoom) ||
			!strings.Contains(err.Error(), "backoff policy") {
			t.Errorf("Run returned %v", err)
		}
		want(t, j.take(), "+a", "-a")
	})
}
