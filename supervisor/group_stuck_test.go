package supervisor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// ended tells whether Run has returned, and fails the test if it has.
func (r *running) ended(t *testing.T) bool {
	t.Helper()
	select {
	case err := <-r.done:
		t.Errorf("the tree has ended: %v", err)
		return true
	default:
		return false
	}
}

func TestATemporaryChildThatHangsKeepsNoGroupFromItsRestart(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForAll, supervisor.RestForOne} {
		for _, which := range []string{"static", "dynamic", "gated dynamic"} {
			t.Run(strategy.String()+" "+which, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dynamic := which != "static"
					var j journal
					letGo := make(chan struct{})
					a, group := newActor(&j, "a"), (*supervisor.Group)(nil)
					first := a.child()
					first.Run = func(ctx context.Context) error {
						group = supervisor.Of(ctx)
						return a.run(ctx)
					}
					temp := hanging("temp", letGo)
					temp.Restart = supervisor.Temporary
					temp.Gate = which == "gated dynamic" // at which nothing will wait
					tree := supervisor.Tree{Strategy: strategy,
						Children: []supervisor.Child{first, temp}}
					if dynamic {
						tree.Children = tree.Children[:1]
					}
					r := start(t, tree)
					if dynamic {
						if _, err := group.Start(temp); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					}
					a.now(boom)
					time.Sleep(time.Minute)
					if r.ended(t) {
						close(letGo)
						return
					}
					want(t, j.take(), "+a", "-a", "+a")
					if s := r.find(t, "root/temp").State; s != supervisor.StateStuck {
						t.Errorf("it is %s", s)
					}
					close(letGo)
					synctest.Wait()
					rep := r.Report()
					if got, ok := rep.Find("root/temp"); ok == dynamic ||
						!dynamic && got.State != supervisor.StateStopped {
						t.Errorf("when it has ended it is %q", got.State)
					}
					r.mustEnd(t)
				})
			})
		}
	}
}
