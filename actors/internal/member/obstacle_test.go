package member

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
)

func TestWhoHoldsAnIDIsEndedRefusedOrWaitedFor(t *testing.T) {
	own := protocol.Process{Instance: "me"}
	for name, c := range map[string]struct {
		h        holder
		liveness protocol.Liveness
		want     obstacleStep
	}{
		"a dead process":            {holder{owner: thisIDs}, protocol.Dead, endItsSession},
		"a living process":          {holder{owner: thisIDs}, protocol.Alive, refuseID},
		"a process of another host": {holder{owner: thisIDs}, protocol.Unknown, waitForExpiry},
		"this process": {holder{owner: thisIDs, process: own}, protocol.Alive,
			endItsSession},
		"one whose work has stopped": {holder{owner: thisIDs, stopped: true}, protocol.Alive,
			endItsSession},
		"dead, under a strange name":  {holder{}, protocol.Dead, waitForExpiry},
		"alive, under a strange name": {holder{}, protocol.Alive, refuseID},
		"stopped, under a strange name": {holder{stopped: true}, protocol.Alive,
			waitForExpiry},
		"another member's session": {holder{owner: anothers}, protocol.Unknown, waitForLeader},
		"another member's, alive":  {holder{owner: anothers}, protocol.Alive, waitForLeader},
		"another member's, dead":   {holder{owner: anothers}, protocol.Dead, waitForLeader},
	} {
		if got := c.h.next("me", c.liveness); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
	if got := (holder{owner: thisIDs}).next("", protocol.Alive); got != refuseID {
		t.Errorf("two instances without names are taken for one: %v", got)
	}
}

func TestASessionThatIsWaitedForIsProbedAfterTheLimit(t *testing.T) {
	const limit = time.Minute
	now := time.Unix(1_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		w    predecessorWait
		want probeStep
	}{
		"within the limit": {predecessorWait{since: ago(limit)}, stillExpiring},
		"after it":         {predecessorWait{since: ago(limit + 1)}, makeProbe},
		"the probe lives":  {predecessorWait{since: ago(2 * limit), probe: "p"}, askProbe},
		"it has just ended": {predecessorWait{since: ago(2 * limit), probe: "p",
			ended: ago(expirySlack)}, stillExpiring},
		"it ended before": {predecessorWait{since: ago(2 * limit), probe: "p",
			ended: ago(expirySlack + 1)}, keptAlive},
	} {
		if got := c.w.next(now, limit); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}
