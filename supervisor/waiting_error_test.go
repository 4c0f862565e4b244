package supervisor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// guarded is an error whose text is behind a lock, which is taken when the text was read once.
type guarded struct {
	reads atomic.Int32
	lock  chan struct{} // closed when it is given back
}

func (e *guarded) Error() string {
	if e.reads.Add(1) > 1 {
		<-e.lock
	}
	return "it fails"
}

func TestTheSupervisorDoesNotWaitForTheTextOfAnError(t *testing.T) {
	wait := supervisor.Child{Name: "waits", Run: func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}}
	for name, tree := range map[string]supervisor.Tree{
		"a group that is restarted":  {Strategy: supervisor.OneForAll},
		"a tree that ends by itself": {AutoShutdown: supervisor.AnySignificant},
		"a tree that gives up":       {MaxRestarts: supervisor.NoRestarts},
	} {
		for _, inside := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, nested %v", name, inside), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					err := &guarded{lock: make(chan struct{})}
					fails := supervisor.Child{Name: "fails", Run: func(context.Context) error {
						time.Sleep(time.Second)
						return err
					}}
					tree := tree
					if tree.AutoShutdown != supervisor.Never {
						fails.Restart, fails.Significant = supervisor.Temporary, true
					}
					tree.Children = []supervisor.Child{wait, fails}
					if inside {
						inner := tree
						tree = supervisor.Tree{Children: []supervisor.Child{{Name: "inner",
							Tree: &inner}}}
					}
					r := start(t, tree)
					time.Sleep(time.Second)
					synctest.Wait()
					told := make(chan supervisor.Report, 1)
					go func() { told <- r.Report() }()
					synctest.Wait()
					select {
					case <-told:
					default:
						t.Error("a report waits for the text of a child's error")
					}
					r.stop()
					select {
					case <-r.done:
					case <-time.After(time.Minute):
						t.Error("the end waits for the text of a child's error")
					}
					close(err.lock)
				})
			})
		}
	}
}
