package supervisor_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/supervisor"
)

func TestTheCountsOfAStaticChildStayWhenADynamicOneHadItsName(t *testing.T) {
	for _, how := range []string{"removed", "with its supervisor", "late"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, g := startGroup(t, supervisor.Tree{Children: []supervisor.Child{{Name: "a",
					Run: func(ctx context.Context) error { <-ctx.Done(); panic("x") }}}})
				if err := g.Stop(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
				leaf, a, want := newLatePanic(), treeOf("a"), supervisor.Counts{Panics: 1}
				if how == "late" {
					a, want = leaf.child(), supervisor.Counts{Panics: 2, Abandoned: 1}
					a.Name = "a"
				}
				h := mustStart(t, g, a)
				switch how {
				case "removed":
					h.Stop()
				case "with its supervisor":
					r.mustEnd(t)
				case "late":
					stuckOf(t, r.end())
					close(leaf.letGo)
					close(leaf.tell)
				}
				<-h.Done()
				if c := r.Counters(); c.Children["root/a"] != want || c.Total != want {
					t.Errorf("%+v", c)
				}
				if how == "removed" {
					r.mustEnd(t)
				}
			})
		})
	}
}
