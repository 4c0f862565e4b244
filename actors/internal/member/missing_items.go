package member

import (
	"maps"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
)

// missing are the items that this member has a key of and cannot start: those that are gone from
// the workload, and those that cannot be read. The leader takes a key of the former back, but not
// while its brake is on. Each item rests by itself: it keeps no others from being read and started.
// Another one has the items that cannot be released.
type missing map[string]rest

// rest is when an item is to be read again, and how often that was in vain so far.
type rest struct {
	until  time.Time
	times  int
	failed bool // it could not be read, by itself; else it was not there
}

const (
	// restMissing is the longest rest of an item if few are missing: it may be back by then, and
	// nothing tells.
	restMissing = 2 * time.Second
	// restMany is the longest rest if many are.
	restMany = 5 * time.Second
	// restFirst is the first rest of an item whose read has failed, and of one that is missing if a
	// soak is shorter.
	restFirst = 50 * time.Millisecond
)

// found takes in that an item is missing. It rests for a soak at the longest, or for restFirst if
// that is longer, and for twice as long each time. Items that rest for equally long rest until the
// same moments, whenever they were found: all of them together cost one read in each of these
// rests.
func (m missing) found(id string, now time.Time, soak time.Duration) {
	r := m[id]
	if r.failed {
		r = rest{}
	}
	m[id] = r
	wait := max(soak, min(max(soak, restFirst)<<min(r.times, 8), restMissing))
	wait = min(wait*time.Duration(1+len(m)/startBatch), max(wait, restMany))
	m[id] = rest{until: now.Add(wait - time.Duration(now.UnixNano())%wait), times: r.times + 1}
}

// fails takes in that an item could not be read by itself. It rests for twice as long each time.
func (m missing) fails(id string, now time.Time) (wait time.Duration) {
	r := m[id]
	if !r.failed {
		r = rest{failed: true}
	}
	m[id] = r
	wait = min(restFirst<<min(r.times, 8), restMany) * time.Duration(1+len(m)/startBatch)
	m[id] = rest{until: now.Add(wait), times: r.times + 1, failed: true}
	return wait
}

// batch chooses which of the items to read at once, most of them at the most. One that could not be
// read waits for all that may be, and is then read alone: the one that has waited longest.
func (m missing) batch(ids []string, most int) []string {
	var batch []string
	longest := ids[0]
	for _, id := range ids {
		switch r := m[id]; {
		case r.failed && r.until.Before(m[longest].until):
			longest = id
		case !r.failed && len(batch) < most:
			batch = append(batch, id)
		}
	}
	if len(batch) == 0 {
		batch = append(batch, longest)
	}
	return batch
}

// ready are those of ids that do not rest, and when the next one of the others is due. What rests
// and is not among ids is forgotten.
func (m missing) ready(ids []string, now time.Time) (ready []string, due time.Time) {
	if len(m) == 0 {
		return ids, due
	}
	asked := make(map[string]bool, len(ids))
	for _, id := range ids {
		asked[id] = true
		if until, rests := m.rests(id, now); rests {
			due = actor.Earliest(due, until)
		} else {
			ready = append(ready, id)
		}
	}
	maps.DeleteFunc(m, func(id string, _ rest) bool { return !asked[id] })
	return ready, due
}

// rests tells whether an item is not to be read yet, and until when.
func (m missing) rests(id string, now time.Time) (until time.Time, ok bool) {
	until = m[id].until
	return until, until.After(now)
}
