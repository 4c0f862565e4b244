package supervisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/coordd/coordd/supervisor"
)

// loud is an error that wraps itself and says so without end.
type loud struct{}

func (l *loud) Error() string { return "again: " + l.Unwrap().Error() }
func (l *loud) Unwrap() error { return l }

// within holds values.
type within struct{ values []any }

// endless are panic values that are not to be written out: each holds itself, or is as long as if
// it did.
func endless() map[string]any {
	list := []any{nil}
	list[0] = list
	table := map[string]any{}
	table["itself"] = table
	deep := &within{[]any{nil}}
	deep.values[0] = deep.values
	long, wide := any("x"), map[string]any{}
	for range 60 {
		long, wide = []any{long, long}, map[string]any{"a": wide, "b": wide}
	}
	return map[string]any{
		"an error that wraps itself": &loud{}, "a list": list, "a map": table, "in a struct": *deep,
		"behind a pointer":                    deep,
		"a list of one list twice, and so on": long, "a map likewise": wide,
		"such an error in a struct": holder{&loud{}}, "behind a pointer to one": &holder{&loud{}},
		"in what tells itself": teller{&loud{}},
		"in a list of errors":  []error{&loud{}}, "in a list of its type": []*loud{{}},
		"in a map of errors": map[string]error{"a": &loud{}},
		"as a map's key":     map[any]int{&loud{}: 1},
	}
}

type holder struct{ Err error }

type teller struct{ Err error }

func (t teller) String() string { return "told: " + t.Err.Error() }

// restartedOnce runs a child that may fail twice, and returns how often it was started and what
// became of its supervisor.
func restartedOnce(t *testing.T, child func() error) (s *supervisor.Supervisor, starts int,
	err error) {
	t.Helper()
	s, err = supervisor.New("root", supervisor.Tree{MaxRestarts: 1,
		Children: []supervisor.Child{{Name: "child", Run: func(context.Context) error {
			starts++
			return child()
		}}}}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context())
	return s, starts, err
}

func TestAPanicWhoseValueHasNoEndIsAFailureLikeAnyOther(t *testing.T) {
	for name, value := range endless() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, starts, err := restartedOnce(t, func() error { panic(value) })
				var p *supervisor.PanicError
				if !errors.As(err, &p) || starts != 2 {
					t.Errorf("%d starts, and %T", starts, err)
				}
				_ = fmt.Sprintf("%v %+v", err, err)
				if _, err := json.Marshal(s.Report()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// leaver is a policy that ends the goroutine that asks it.
type leaver struct{ backoff.BackOff }

func (leaver) NextBackOff() time.Duration { runtime.Goexit(); return 0 }
func (leaver) Reset()                     {}

func TestABackoffThatEndsItsGoroutineGivesTheChildUpAndLeavesNoSiblingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		inner := supervisor.Tree{Children: []supervisor.Child{
			{Name: "sibling", Run: func(ctx context.Context) error {
				if n := running.Add(1); n > 1 {
					t.Errorf("%d incarnations of the sibling run at once", n)
				}
				defer running.Add(-1)
				<-ctx.Done()
				return nil
			}},
			{Name: "fails", Backoff: func() supervisor.Backoff {
				return leaver{}
			}, Run: func(context.Context) error { return errors.New("it fails") }},
		}}
		s, err := supervisor.New("root", supervisor.Tree{MaxRestarts: 3,
			Children: []supervisor.Child{{Name: "inner", Tree: &inner}}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var gaveUp *supervisor.EscalationError
		if err := s.Run(ctx); !errors.As(err, &gaveUp) {
			t.Errorf("it ended with %v", err)
		}
		if n := running.Load(); n != 0 {
			t.Errorf("%d siblings still run", n)
		}
	})
}
