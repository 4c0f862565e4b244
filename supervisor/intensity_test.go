package supervisor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// Whether a child is given up depends on how long it runs, not on what its backoff drew.
func TestWhetherAChildIsGivenUpIsNotLeftToChance(t *testing.T) {
	for _, c := range []struct {
		runs  time.Duration
		gives bool
	}{
		{0, true},
		{2 * time.Second, true},
		// the tenth of these restarts is within a minute of running
		{5900 * time.Millisecond, true},
		{6100 * time.Millisecond, false},
		{20 * time.Second, false},
	} {
		t.Run(c.runs.String(), func(t *testing.T) {
			gave := 0
			for range 60 {
				synctest.Test(t, func(t *testing.T) {
					s, err := supervisor.New("root",
						supervisor.Tree{Children: []supervisor.Child{{Name: "child",
							Run: func(ctx context.Context) error {
								select {
								case <-ctx.Done():
								case <-time.After(c.runs):
								}
								return errBoom
							}}}}, quiet)
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
					defer cancel()
					if s.Run(ctx) != nil {
						gave++
					}
				})
			}
			if want := map[bool]int{true: 60}[c.gives]; gave != want {
				t.Errorf("given up in %d of 60 runs, want %d", gave, want)
			}
		})
	}
}

func TestChildrenThatFailOnceTogetherAreEachRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		starts := make([]int, many)
		var children []supervisor.Child
		for i := range many {
			children = append(children, supervisor.Child{Name: fmt.Sprint(i),
				Run: func(ctx context.Context) error {
					if starts[i]++; starts[i] == 1 {
						time.Sleep(time.Minute)
						return errBoom
					}
					<-ctx.Done()
					return nil
				}})
		}
		r := start(t, supervisor.Tree{StopTogether: true, Children: children})
		time.Sleep(5 * time.Minute)
		select {
		case err := <-r.done:
			t.Fatalf("it gave up: %v", err)
		default:
		}
		r.mustEnd(t)
		for i, n := range starts {
			if n != 2 {
				t.Errorf("child %d was started %d times", i, n)
			}
		}
	})
}

// A child that runs on while those after it are restarted has not run since the last restart of the
// group, and one that was started later has not run for as long as the group.
func TestAGroupIsGivenUpByTheTimeForWhichItRuns(t *testing.T) {
	t.Run("one that ran on fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var j journal
			a, b := newActor(&j, "a"), newActor(&j, "b")
			r := start(t, supervisor.Tree{Strategy: supervisor.RestForOne, MaxRestarts: 1,
				Period: time.Minute, Children: []supervisor.Child{a.child(), b.child()}})
			time.Sleep(100 * time.Second)
			b.now(boom)
			time.Sleep(10 * time.Second)
			a.now(boom)
			select {
			case <-r.done:
			default:
				t.Error("it was restarted twice within 10s, of at most once in a minute")
				r.mustEnd(t)
			}
		})
	})
	t.Run("one that came later fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, g := startGroup(t, supervisor.Tree{Strategy: supervisor.OneForAll, MaxRestarts: 1,
				Period: time.Minute})
			for i := range 5 {
				time.Sleep(time.Hour)
				starts := 0
				mustStart(t, g, supervisor.Child{Name: fmt.Sprint(i),
					Run: func(ctx context.Context) error {
						if starts++; starts == 1 {
							return errBoom
						}
						<-ctx.Done()
						return nil
					}})
			}
			time.Sleep(time.Hour)
			r.mustEnd(t)
		})
	})
}

// The last fails first: with RestForOne each that fails then widens the restart that is under way.
func TestAGroupWhoseChildrenFailTogetherIsRestartedOnce(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForAll, supervisor.RestForOne} {
		t.Run(strategy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				a, b, c := newActor(&j, "a"), newActor(&j, "b"), newActor(&j, "c")
				r := start(t, supervisor.Tree{Strategy: strategy, MaxRestarts: 1,
					Children: []supervisor.Child{a.child(), b.child(), c.child()}})
				j.take()
				for _, each := range []*actor{c, b, a} {
					go func() {
						select {
						case each.fail <- boom:
						case <-time.After(time.Second / 2): // it was stopped before
						}
					}()
					synctest.Wait()
				}
				time.Sleep(2 * time.Second)
				if r.ended(t) {
					return
				}
				if lines := j.take(); len(lines) != 6 {
					t.Errorf("%q", lines)
				}
				c.now(boom) // which is the second
				if err := <-r.done; err == nil {
					t.Error("it gave up without an error")
				}
				r.stop()
			})
		})
	}
}
