package supervisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/supervisor"
)

// Methods that panic with a value whose own method panics, or that has no end: fmt does not stand
// these.
type (
	selfText    struct{}
	selfError   struct{}
	endlessText struct{}
	endlessErr  struct{}
	selfFormat  struct{ error }
	leavingErr  struct{}
)

func (s selfText) String() string               { panic(s) }
func (s selfError) Error() string               { panic(s) }
func (endlessText) String() string              { panic(endless()["a list"]) }
func (endlessErr) Error() string                { panic(endless()["a map"]) }
func (s selfFormat) Format(f fmt.State, _ rune) { fmt.Fprint(f, "bad: "); panic(selfText{}) }
func (leavingErr) Error() string                { runtime.Goexit(); return "" }

func TestAMethodThatPanicsWithWhatCannotBeToldIsAFailureLikeAnyOther(t *testing.T) {
	for name, value := range map[string]any{
		"a text that panics with itself":            selfText{},
		"an error that panics with itself":          selfError{},
		"a text that panics with what has no end":   endlessText{},
		"an error that panics with what has no end": endlessErr{},
		"a formatter":                      selfFormat{errors.New("it fails")},
		"an error that ends its goroutine": leavingErr{},
	} {
		for _, how := range []string{"returned", "panicked", "in its backoff policy"} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { failWith(t, value, how) })
			})
		}
	}
}

func failWith(t *testing.T, value any, how string) {
	starts, want := 0, 2
	child := supervisor.Child{Name: "child", Run: func(context.Context) error {
		starts++
		if err, ok := value.(error); ok && how == "returned" {
			return err
		}
		panic(value)
	}}
	if how == "in its backoff policy" {
		want = 1
		child.Run = func(context.Context) error { starts++; return errors.New("it fails") }
		child.Backoff = func() supervisor.Backoff { panic(value) }
	}
	s, err := supervisor.New("root", supervisor.Tree{MaxRestarts: 1,
		Children: []supervisor.Child{child}}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context())
	var gaveUp *supervisor.EscalationError
	if !errors.As(err, &gaveUp) || starts != want {
		t.Fatalf("%d starts, want %d, and %T", starts, want, err)
	}
	_ = fmt.Sprintf("%v %+v", err, err)
	if _, err := json.Marshal(s.Report()); err != nil {
		t.Error(err)
	}
}
