package routing

import (
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Table is the router's pure core, for its tests.
type Table struct {
	t   *table
	Odd int // keys that were skipped
}

func NewTable(keys protocol.Keys, maxAge time.Duration) *Table {
	t := &Table{}
	t.t = newTable(keys, maxAge, func(store.Entry, string) { t.Odd++ })
	return t
}

func (t *Table) Begin(at time.Time) int                       { return t.t.begin(at) }
func (t *Table) Members(v store.View, gen int, now time.Time) { t.t.members(v, gen, now) }
func (t *Table) Acks(v store.View, gen int) {
	t.t.acks(v, gen, time.Time{})
}
func (t *Table) Share(id string, v store.View, gen int, now time.Time) {
	t.t.share(id, v, gen, now, 0)
}
func (t *Table) ShareAfter(id string, v store.View, gen int, now time.Time, ack uint64) {
	t.t.share(id, v, gen, now, ack)
}
func (t *Table) Forget(id string, now time.Time) { t.t.forget(id, now) }
func (t *Table) Beat(sent time.Time, members, acks, known uint64) (behind, rewound bool) {
	s := t.t.takePulse(pulse{sent: sent, members: members, acks: acks}, known)
	return s == 1, s == 2
}
func (t *Table) Roster() []string            { return t.t.roster.Get() }
func (t *Table) Laggards() map[string]uint64 { return t.t.lateShares() }
func (t *Table) AsOf() time.Time             { return t.t.since() }

// Look is the location, and the name of the finding.
func (t *Table) Look(item string, now time.Time) (Location, string) {
	loc, f := t.t.look(item, now)
	return loc, [...]string{"owned", "moving", "ownerless", "keyless", "unread", "stale"}[f]
}

// RestAfter is the rest after a view of n keys.
var RestAfter = restAfter
