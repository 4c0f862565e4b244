package main

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

func TestTheCheckOfAMemberWithAGuardOutlastsItsGoodbye(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		flags runFlags
		want  time.Duration
	}{
		"no commands":             {runFlags{}, 0},
		"commands":                {runFlags{exec: "x", restartWait: s / 2}, 10 * s},
		"a short lease":           {runFlags{exec: "x", lease: 3 * s, restartWait: s / 2}, 3 * s},
		"a longer wait":           {runFlags{exec: "x", lease: 3 * s, restartWait: 4 * s}, 6 * s},
		"a wait beyond the TTL":   {runFlags{exec: "x", restartWait: 9 * s}, actors.NoCheck},
		"a check that was chosen": {runFlags{exec: "x", checkTTL: 4 * s}, 4 * s},
		"none that was chosen":    {runFlags{checkTTL: actors.NoCheck}, actors.NoCheck},
	} {
		c.flags.ttl = 10 * s
		if got := c.flags.guarded(); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}
