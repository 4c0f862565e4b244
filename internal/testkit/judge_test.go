package testkit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

func TestTheJudgeSeesTwoAtOnceAndATokenThatDoesNotRise(t *testing.T) {
	for name, c := range map[string]struct {
		first, second uint64
		overlap, same bool
		want          []string // what the breaches say
	}{
		"a change of hands":     {first: 1, second: 2},
		"the same member again": {first: 1, second: 2, same: true},
		"an equal token in the same place": {first: 2, second: 2, same: true,
			want: []string{"token 2 after one of 2"}},
		"two at once": {first: 1, second: 2, overlap: true,
			want: []string{"b starts w with token 2 while a still works"}},
		"an equal token in another place": {first: 2, second: 2,
			want: []string{"token 2 after one of 2"}},
		"a token that falls": {first: 2, second: 1, same: true,
			want: []string{"token 1 after one of 2"}},
		"both": {first: 2, second: 2, overlap: true, want: []string{"while a still works",
			"token 2 after one of 2"}},
	} {
		j := testkit.NewJudge()
		if got := j.Begin("a", "w", c.first); len(got) > 0 {
			t.Errorf("%s: it says %q of the first", name, got)
		}
		if !c.overlap {
			j.End("a", "w")
		}
		member := "b"
		if c.same {
			member = "a"
		}
		got := j.Begin(member, "w", c.second)
		if !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%s: it says %q, not %q", name, got, c.want)
		}
		if j.End("c", "w"); j.Working["w"] != member {
			t.Errorf("%s: another one's end ends it", name)
		}
	}
}
