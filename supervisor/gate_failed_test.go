package supervisor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// opensFirst is a gated temporary child. It is ready at once in its first incarnation and in those
// from the third on, and fails in the second before it is.
func opensFirst(inTree bool) supervisor.Child {
	starts := 0
	gate := supervisor.Child{Name: "gate", Gate: true, Run: func(ctx context.Context) error {
		if starts++; starts == 2 {
			return errBoom
		}
		supervisor.Ready(ctx)
		<-ctx.Done()
		return nil
	}}
	if inTree {
		gate = treeOf("gate", gate)
		gate.Gate, gate.Tree.MaxRestarts = true, supervisor.NoRestarts
	}
	gate.Restart = supervisor.Temporary
	return gate
}

// What runs is left alone when it fails. What is started behind it later would be started without.
func TestAGateThatFailsWhenItIsRestartedByHandIsClosedToTheNextStartOfItsGroup(t *testing.T) {
	for name, c := range map[string]struct {
		strategy supervisor.Strategy
		order    string
		inTree   bool
		again    bool // it is restarted by hand once more
		gives    bool // up
	}{
		"all":              {supervisor.OneForAll, "gate z a", false, false, true},
		"all, opened":      {supervisor.OneForAll, "gate z a", false, true, false},
		"a tree":           {supervisor.OneForAll, "gate z a", true, false, true},
		"a tree, opened":   {supervisor.OneForAll, "gate z a", true, true, false},
		"rest":             {supervisor.RestForOne, "a gate z", false, false, true},
		"rest, opened":     {supervisor.RestForOne, "a gate z", false, true, false},
		"rest, not passed": {supervisor.RestForOne, "gate a z", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				a, z := newActor(new(journal), "a"), newActor(&j, "z")
				is := map[string]supervisor.Child{"gate": opensFirst(c.inTree), "a": a.child(),
					"z": z.child()}
				tree := supervisor.Tree{Strategy: c.strategy}
				for name := range strings.FieldsSeq(c.order) {
					tree.Children = append(tree.Children, is[name])
				}
				r := start(t, tree)
				restart := func() {
					if err := r.Restart(t.Context(), "root/gate"); err != nil {
						t.Error(err)
					}
					synctest.Wait()
				}
				restart()
				if s := r.find(t, "root/gate").State; s != supervisor.StateFailed {
					t.Errorf("the gate is %s", s)
				}
				want(t, j.take(), "+z")
				a.now(boom)
				if c.again {
					restart()
				}
				time.Sleep(10 * time.Second)
				got := j.take()
				err := r.end()
				if !c.gives {
					if err != nil {
						t.Errorf("Run returned %v", err)
					}
					want(t, got, "-z", "+z")
					return
				}
				want(t, got, "-z")
				var esc *supervisor.EscalationError
				if !errors.As(err, &esc) || !errors.Is(err, errBoom) ||
					esc.Reason != "a gated temporary child failed before it was ready" {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}
