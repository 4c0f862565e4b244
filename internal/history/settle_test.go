package history_test

import (
	"slices"
	"strings"
	"testing"
)

func TestServicesThatAreNotWholeInTimeAreRejected(t *testing.T) {
	rejected(t, map[string]broken{
		"no owner": {"I3", "w2 has no owner", `
			0 set - 1 0 workload/w1 x
			0 set - 2 0 workload/w2 x
			0 boot a#1
			1 start a#1 w1 5
			2 calm - 5s -1
			9 alive a#1`},
		"an owner that is frozen": {"I3", "w1 has no owner", `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			1 start a#1 w1 5
			2 calm - 5s -1
			3 freeze a#1
			9 close -`},
		"an item that nobody wants": {"I3", "w2 is worked on and not in the workload", `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			1 start a#1 w1 5
			1 start a#1 w2 5
			2 calm - 5s -1
			9 alive a#1`},
		"uneven": {"I3", "the loads are uneven", `
			0 set - 1 0 workload/w1 x
			0 set - 2 0 workload/w2 x
			0 boot a#1
			0 boot b#1
			1 start a#1 w1 5
			1 start a#1 w2 5
			2 calm - 5s 1
			9 alive a#1`},
	})
}

func TestEachCalmLineIsJudged(t *testing.T) {
	rejected(t, map[string]broken{
		"a second one": {"I3", "5s after the faults w1 has no owner", `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			1 start a#1 w1 5
			2 calm - 5s -1
			9 stop a#1 w1 5
			10 calm - 5s -1
			20 alive a#1`},
	})
}

func TestABoundThatIsNotReachedIsNotJudged(t *testing.T) {
	for name, text := range map[string]string{
		"before all is stopped on purpose": `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			1 start a#1 w1 5
			2 calm - 5s -1
			3 close -
			4 stop a#1 w1 5
			9 alive a#1`,
		"before the next calm line": `
			0 set - 1 0 workload/w1 x
			0 boot a#1
			2 calm - 5s -1
			3 start a#1 w1 5
			4 calm - 5s -1
			10 alive a#1`,
	} {
		r := check(t, text)
		if len(r.Breaches) != 0 || !slices.ContainsFunc(r.Unjudged, func(why string) bool {
			return strings.HasPrefix(why, "I3: ")
		}) {
			t.Errorf("%s: %v\nwant no breach, and that it is not judged", name, r)
		}
	}
}
