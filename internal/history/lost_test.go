package history_test

import (
	"strings"
	"testing"
)

// Lines that were not written are no breach, and what they would have told is not judged.
func TestWhatWasLostIsNotHeldAgainstAnybody(t *testing.T) {
	for name, c := range map[string]struct{ lost, text string }{
		"the stop is missing": {"9 lost m1#1 4s", `
			1 boot m1#1
			2 start m1#1 a 5
			10 alive m1#1
			11 boot m2#1
			12 start m2#1 a 6
			13 alive m1#1
			14 end m1#1`},
		"the stop is missing, and it starts again": {"9 lost m1#1 4s", `
			1 boot m1#1
			2 start m1#1 a 5
			10 start m1#1 a 6
			11 stop m1#1 a 6`},
		"the start is missing": {"9 lost m1#1 4s", `
			1 boot m1#1
			10 stop m1#1 a 5
			11 end m1#1`},
		"the start is missing, and it works": {"9 lost m1#1 4s", `
			1 boot m1#1
			10 step m1#1 a 5
			11 end m1#1`},
		"somebody else begins before the line is written": {"9 lost m1#1 4s", `
			1 boot m1#1
			2 start m1#1 a 5
			6 start m2#1 a 6
			10 alive m1#1
			11 stop m2#1 a 6`},
		"it leads no more": {"9 lost m1#1 4s", `
			1 boot m1#1
			2 lead m1#1 5
			6 lead m2#1 6
			10 alive m1#1
			11 unlead m2#1 6`},
		"an owner is missing": {"9 lost m1#1 4s", `
			1 boot m1#1
			2 set - 5 0 workload/a x
			6 calm - 2s 1
			10 alive m1#1
			11 end m1#1`},
	} {
		lines := strings.Split(strings.TrimSpace(c.text), "\n")
		with := []string{}
		for _, line := range lines {
			if strings.HasPrefix(strings.TrimSpace(line), "10 ") {
				with = append(with, c.lost)
			}
			with = append(with, line)
		}
		if r := check(t, c.text); len(r.Breaches) == 0 {
			t.Errorf("%s: without its line nothing is judged: %v", name, r)
		}
		r := check(t, strings.Join(with, "\n"))
		if len(r.Breaches) > 0 || len(r.Lost) != 1 || !strings.Contains(r.String(),
			"incomplete: m1#1 has no lines") {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// What is in the history is judged all the same.
func TestWhatWasNotLostIsJudged(t *testing.T) {
	rejected(t, map[string]broken{
		"before it": {"I1", "both work on a", `
			1 start m1#1 a 5
			2 start m2#1 a 6
			3 stop m1#1 a 5
			9 lost m1#1 4s`},
		"after it": {"I1", "both work on a", `
			1 boot m1#1
			9 lost m1#1 4s
			10 start m1#1 a 5
			11 start m2#1 a 6
			12 stop m1#1 a 5`},
		"somebody else": {"I1", "both work on a", `
			1 boot m1#1
			2 start m2#1 a 5
			3 start m3#1 a 6
			9 lost m1#1 8s
			12 stop m2#1 a 5`},
		"tokens": {"I2", "with token 5", `
			2 start m1#1 a 6
			3 stop m1#1 a 6
			9 lost m1#1 4s
			10 start m1#1 a 5`},
	})
}
