package supervisor_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/supervisor"
)

func TestTheStacksOfLateChildrenAreLookedForOnceAndOnlyOfThoseThatStillRun(t *testing.T) {
	type found struct {
		id     string
		stacks map[string]string
		late   bool
	}
	for _, c := range []struct{ late, ended, want []string }{
		{[]string{"a", "b", "c"}, []string{"b"}, []string{"a", "c"}},
		{[]string{"a", "b"}, []string{"a", "b"}, nil},
	} {
		release := supervisor.HoldNaming()
		answers := make(chan found)
		for _, id := range c.late {
			late := supervisor.NewLate(id)
			go func() {
				stacks, is := late.Stacks()
				answers <- found{id, stacks, is}
			}()
			if slices.Contains(c.ended, id) {
				late.End()
			}
		}
		release(len(c.late))
		for range c.late {
			f := <-answers
			if got := slices.Sorted(maps.Keys(f.stacks)); !slices.Equal(got, c.want) {
				t.Errorf("the stacks of %q were looked for, want %q", got, c.want)
			}
			if f.late != slices.Contains(c.want, f.id) {
				t.Errorf("%s is late: %v", f.id, f.late)
			}
			if f.late && !strings.Contains(f.stacks[f.id], "Late.Stacks") {
				t.Errorf("the stack of %s is %s", f.id, f.stacks[f.id])
			}
		}
	}
}
