package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// meanwhile is a policy that does something before the supervisor hears of it.
type meanwhile func()

func (f meanwhile) NextBackOff() time.Duration { f(); return time.Second }
func (meanwhile) Reset()                       {}

// atTheMomentOfAGroupRestart has b end when a has failed, and its group is about to be restarted.
func atTheMomentOfAGroupRestart(t *testing.T, tree supervisor.Tree, b supervisor.Child,
	end func() error) *running {
	t.Helper()
	var j journal
	a, ending := newActor(&j, "a"), make(chan struct{})
	first := a.child()
	first.Backoff = func() supervisor.Backoff {
		return meanwhile(func() { close(ending); time.Sleep(time.Millisecond) })
	}
	starts := 0
	b.Name, b.Run = "b", func(ctx context.Context) error {
		if starts++; starts > 1 {
			<-ctx.Done()
			return nil
		}
		select {
		case <-ending:
			return end()
		case <-ctx.Done():
			return nil
		}
	}
	tree.Strategy, tree.Children = supervisor.OneForAll, []supervisor.Child{first, b}
	r := start(t, tree)
	a.now(boom)
	time.Sleep(10 * time.Second)
	synctest.Wait()
	return r
}

func TestAnEndIsHeardAlsoAtTheMomentOfAGroupRestart(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprintf("together=%v", together), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := atTheMomentOfAGroupRestart(t, supervisor.Tree{StopTogether: together},
					supervisor.Child{}, func() error { return supervisor.ErrTerminate })
				select {
				case err := <-r.done:
					if err != nil {
						t.Errorf("Run returned %v", err)
					}
				default:
					t.Errorf("the tree goes on: b is %+v", r.find(t, "root/b"))
					r.mustEnd(t)
				}

				bad := errors.New("no restart can mend it")
				r = atTheMomentOfAGroupRestart(t, supervisor.Tree{StopTogether: together},
					supervisor.Child{}, func() error { return supervisor.Escalate(bad) })
				r.stop()
				if err := <-r.done; !errors.Is(err, bad) {
					t.Errorf("Run returned %v", err)
				}

				for _, done := range []error{supervisor.ErrDoNotRestart, nil} {
					b := supervisor.Child{}
					if done == nil {
						b.Restart, b.Significant = supervisor.Temporary, true
					}
					r = atTheMomentOfAGroupRestart(t, supervisor.Tree{StopTogether: together,
						AutoShutdown: supervisor.AllSignificant}, b,
						func() error { return done })
					if got := r.find(t, "root/b"); got.State != supervisor.StateDone &&
						done != nil {
						t.Errorf("b, which need not be restarted, is %s in its incarnation %d",
							got.State, got.Incarnation)
					}
					if done == nil && len(r.done) == 0 {
						t.Error("the tree goes on without its significant child")
					}
					r.mustEnd(t)
				}
			})
		})
	}
}

func TestAnEndIsNoFailureAtTheMomentOfARestartByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending, ended, starts := make(chan struct{}), errors.New("ended"), 0
		a := newActor(&journal{}, "a")
		slow := a.child()
		slow.Backoff = func() supervisor.Backoff {
			return meanwhile(func() { time.Sleep(time.Second) })
		}
		r := start(t, supervisor.Tree{MaxRestarts: supervisor.NoRestarts,
			Children: []supervisor.Child{{Name: "tree", Tree: &supervisor.Tree{
				Children: []supervisor.Child{slow, {Name: "b",
					Run: func(ctx context.Context) error {
						if starts++; starts > 1 {
							<-ctx.Done()
							return nil
						}
						<-ending
						return ended
					}}}}}}})
		a.now(boom)
		restarted := make(chan error, 1) // its supervisor waits for a's backoff
		go func() { restarted <- r.Restart(t.Context(), "root/tree/b") }()
		synctest.Wait()
		close(ending)
		if err := <-restarted; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := r.find(t, "root/tree/b"); got.Restarts != 1 || starts != 2 {
			t.Errorf("%d restarts, %d starts", got.Restarts, starts)
		}
		r.mustEnd(t)
	})
}
