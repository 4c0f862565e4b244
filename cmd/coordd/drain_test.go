package main

import "testing"

func TestTheBarOfADrainShowsWhatIsDone(t *testing.T) {
	for want, c := range map[string]struct{ done, total int }{
		"[..............................] 0 of 7 items given up":  {0, 7},
		"[###############...............] 5 of 10 items given up": {5, 10},
		"[##############################] 1 of 1 item given up":   {1, 1},
		"[##############################] 0 of 0 items given up":  {0, 0},
	} {
		if got := bar(c.done, c.total); got != want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.total, got, want)
		}
	}
}
