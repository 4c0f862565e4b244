package supervisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// badError is an error whose methods fail.
type badError struct{ is, unwrap, text bool }

func (b badError) Error() string {
	if b.text {
		panic("in Error")
	}
	return "bad"
}

func (b badError) Is(error) bool {
	if b.is {
		panic("in Is")
	}
	return false
}

func (b badError) Unwrap() error {
	if b.unwrap {
		panic("in Unwrap")
	}
	return nil
}

// cycle is an error that wraps itself.
type cycle struct{ _ bool } // of a size: so two have two addresses

func (*cycle) Error() string   { return "round and round" }
func (c *cycle) Unwrap() error { return c }

type cycles struct{}

func (*cycles) Error() string     { return "round and round" }
func (c *cycles) Unwrap() []error { return []error{io.EOF, c, c} }

// unreadable are errors that harm whoever looks at them.
func unreadable() map[string]error {
	var typed *fs.PathError
	return map[string]error{
		"typed nil":          typed,
		"wrapped typed nil":  fmt.Errorf("opening: %w", error(typed)),
		"joined typed nil":   errors.Join(io.EOF, typed),
		"Is panics":          badError{is: true},
		"Unwrap panics":      badError{unwrap: true},
		"Error panics":       badError{text: true},
		"wraps itself":       &cycle{},
		"joins itself":       &cycles{},
		"nil for a panic":    (*supervisor.PanicError)(nil),
		"escalated":          supervisor.Escalate(typed),
		"wrapped escalation": fmt.Errorf("giving up: %w", supervisor.Escalate(typed)),
	}
}

func TestAnErrorThatCannotBeReadIsAFailureLikeAnyOther(t *testing.T) {
	for name, bad := range unreadable() {
		for _, how := range []string{"returned", "panicked", "while stopping", "from a tree"} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					starts := 0
					child := supervisor.Child{Name: "child", Run: func(ctx context.Context) error {
						if starts++; starts > 1 || how == "while stopping" {
							<-ctx.Done()
						}
						if how == "panicked" && starts == 1 {
							panic(bad)
						}
						return bad
					}}
					tree := supervisor.Tree{Children: []supervisor.Child{child}}
					if how == "from a tree" {
						tree = supervisor.Tree{Children: []supervisor.Child{{Name: "inner",
							Tree: &supervisor.Tree{MaxRestarts: 1, Children: []supervisor.Child{
								{Name: "child", Run: func(context.Context) error {
									starts++
									return bad
								}},
							}}}}}
					}
					s, err := supervisor.New("root", tree, quiet)
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					err = s.Run(ctx)
					if errors.Is(err, io.ErrUnexpectedEOF) {
						t.Error("it is something that it is not")
					}
					fatal := name == "escalated" || name == "wrapped escalation"
					switch {
					case fatal && how == "returned":
						if err == nil || starts != 1 {
							t.Errorf("%d starts and %v, want an escalation", starts, err)
						}
					case how == "returned", how == "panicked":
						if err != nil || starts != 2 {
							t.Errorf("%d starts and %v, want a restart and a clean stop", starts,
								err)
						}
					}
					if last := s.Report().Children[0].LastCause; how == "returned" &&
						(last == nil || !errors.Is(last.Err, supervisor.ErrUnreadable)) {
						t.Errorf("the cause is %v", last)
					}
					if how != "while stopping" {
						if _, err := json.Marshal(s.Report()); err != nil {
							t.Errorf("the report cannot be written: %v", err)
						}
						_ = fmt.Sprintf("%+v %v", err, err)
					}
				})
			})
		}
	}
}
