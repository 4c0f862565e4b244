package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/supervisor"
)

// failure is a host's error that keeps what came of it.
type failure struct{ then error }

func (f *failure) Error() string { return "it fails, and then: " + f.then.Error() }
func (f *failure) Unwrap() error { return f.then }

// quotes hides an error from whoever asks for what it wraps.
type quotes struct{ err error }

func (q *quotes) Error() string { return q.err.Error() }
func (q *quotes) Hidden() error { return q.err }

// A child may run a supervisor of its own. What that one returns holds the child's own error, as
// the cause of its end.
func TestAnErrorThatWrapsItselfByWayOfASupervisorsOwnIsAFailureLikeAnyOther(t *testing.T) {
	run := func(t *testing.T, ctx context.Context, fails error) error {
		inner, err := supervisor.New("inner", supervisor.Tree{MaxRestarts: supervisor.NoRestarts,
			Children: []supervisor.Child{{Name: "child", Run: func(ctx context.Context) error {
				if fails == nil {
					<-ctx.Done()
				}
				return fails
			}}}}, supervisor.WithCause(), quiet)
		if err != nil {
			t.Fatal(err)
		}
		return inner.Run(ctx)
	}
	for name, ends := range map[string]func(t *testing.T, why error) error{
		"stopped": func(t *testing.T, why error) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(why)
			return run(t, ctx, nil)
		},
		"gave up": func(t *testing.T, why error) error { return run(t, t.Context(), why) },
		"hidden":  func(_ *testing.T, why error) error { return &quotes{why} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, starts, err := restartedOnce(t, func() error {
					why := &failure{errors.New("nothing yet")}
					why.then = ends(t, why)
					return why
				})
				if !errors.Is(err, supervisor.ErrUnreadable) || starts != 2 {
					t.Errorf("%d starts and %v, want 2 and %v", starts, err,
						supervisor.ErrUnreadable)
				}
			})
		})
	}
}

// A job that joins an error for each of its rows, and was restarted often, has a long history.
func TestTheHistoryOfAnotherSupervisorIsReadHoweverManyErrorsAreInIt(t *testing.T) {
	rows := make([]error, 60_000)
	for i := range rows {
		rows[i] = io.EOF
	}
	history := &supervisor.EscalationError{Path: "inner"}
	for range 3 {
		history.Causes = append(history.Causes, supervisor.Cause{Err: errors.Join(rows...)})
	}
	twice := errors.Join(history, fmt.Errorf("twice: %w", history))
	if err := supervisor.Protect(func() error { return twice }); err != twice {
		t.Errorf("it is replaced by %.80v", err)
	}
}

// Otherwise the end of a host's own supervisor, or what somebody quotes, would end the host's.
func TestWhatAnErrorHidesOrAnotherSupervisorReturnedAsksForNothing(t *testing.T) {
	for name, err := range map[string]error{
		"stopped":  &supervisor.StoppedError{Path: "inner", Cause: supervisor.ErrTerminate},
		"gave up":  &supervisor.EscalationError{Causes: []supervisor.Cause{{Err: asksForAll()}}},
		"hidden":   &quotes{asksForAll()},
		"two deep": &quotes{errors.Join(errors.New("other"), asksForAll())},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, starts, ended := restartedOnce(t, func() error { return err })
				if ended == nil || starts != 2 {
					t.Errorf("%d starts and %v, want a restart and an escalation", starts, ended)
				}
			})
		})
	}
}

func asksForAll() error {
	return errors.Join(supervisor.ErrTerminate, supervisor.ErrDoNotRestart,
		supervisor.Escalate(errors.New("no restart can mend it")))
}
