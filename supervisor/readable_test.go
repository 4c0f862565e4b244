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

// badError is an error whose methods panic.
type badError struct{ text bool }

func (b badError) Error() string {
	if b.text {
		panic("in Error")
	}
	return "bad"
}

func (b badError) Unwrap() error { panic("in Unwrap") }

func TestAnErrorThatPanicsWhenItIsPrintedIsAFailureLikeAnyOther(t *testing.T) {
	var typed *fs.PathError
	for name, bad := range map[string]error{
		"typed nil":         typed,
		"wrapped typed nil": fmt.Errorf("opening: %w", error(typed)),
		"joined typed nil":  errors.Join(io.EOF, typed),
		"Unwrap panics":     badError{},
		"Error panics":      badError{text: true},
		"escalated":         supervisor.Escalate(typed),
	} {
		for _, how := range []string{"returned", "panicked", "while stopping"} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					starts := 0
					r := start(t, supervisor.Tree{Children: []supervisor.Child{{Name: "child",
						Run: func(ctx context.Context) error {
							if starts++; starts > 1 || how == "while stopping" {
								<-ctx.Done()
							}
							if how == "panicked" {
								panic(bad)
							}
							return bad
						}}}})
					time.Sleep(30 * time.Second)
					synctest.Wait()
					if last := r.find(t, "root/child").LastCause; how != "while stopping" {
						switch {
						case last == nil || starts != 2:
							t.Errorf("%d starts, the cause is %v", starts, last)
						case name != "wrapped typed nil" && // fmt has made its text already
							!errors.Is(last.Err, supervisor.ErrUnreadable):
							t.Errorf("the cause is %v", last)
						}
					}
					r.mustEnd(t)
					if _, err := json.Marshal(r.Report()); err != nil {
						t.Errorf("the report cannot be written: %v", err)
					}
				})
			})
		}
	}
}
