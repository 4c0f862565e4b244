package actors

import "time"

// missing are the items that this member has a key of and that are gone from the workload, with when each is to be
// read again. The leader takes such a key back, but not while its brake is on. Each item rests by itself: those that
// are missing keep no others from being read and started.
type missing map[string]time.Time

// longestMissing is the longest rest between two reads of a missing item, which may be back by then.
const longestMissing = 5 * time.Second

// othersFirst is how much longer than all others an item rests whose read has failed by itself.
const othersFirst = 100 * time.Millisecond

// found takes in that an item is missing. All of them together cost about one read in each soak.
func (m missing) found(id string, now time.Time, soak time.Duration) {
	m[id] = time.Time{}
	m[id] = now.Add(min(soak*time.Duration(1+len(m)/startBatch), max(soak, longestMissing)))
}

// rests tells whether an item is not to be read yet, and until when.
func (m missing) rests(id string, now time.Time) (until time.Time, ok bool) {
	until = m[id]
	return until, until.After(now)
}
