package member

import "time"

// missing are the items that this member has a key of and that are gone from the workload. The
// leader takes such a key back, but not while its brake is on. Each item rests by itself: those
// that are missing keep no others from being read and started.
type missing map[string]rest

// rest is when an item is to be read again, and how often it was missing so far.
type rest struct {
	until time.Time
	times int
}

const (
	// restMissing is the longest rest of an item if few are missing: it may be back by then, and
	// nothing tells.
	restMissing = 2 * time.Second
	// restMany is the longest rest if many are.
	restMany = 5 * time.Second
	// othersFirst is how much longer than all others an item rests whose read has failed by itself.
	othersFirst = 100 * time.Millisecond
)

// found takes in that an item is missing. It rests for a soak at the longest, and for twice as long
// each time. Items that rest for equally long rest until the same moments, whenever they were
// found: all of them together cost one read in each of these rests.
func (m missing) found(id string, now time.Time, soak time.Duration) {
	r := m[id]
	m[id] = r
	wait := max(soak, min(soak<<min(r.times, 8), restMissing))
	wait = min(wait*time.Duration(1+len(m)/startBatch), max(wait, restMany))
	m[id] = rest{now.Add(wait - time.Duration(now.UnixNano())%wait), r.times + 1}
}

// later has an item read again at a moment.
func (m missing) later(id string, at time.Time) { m[id] = rest{at, m[id].times} }

// rests tells whether an item is not to be read yet, and until when.
func (m missing) rests(id string, now time.Time) (until time.Time, ok bool) {
	until = m[id].until
	return until, until.After(now)
}
