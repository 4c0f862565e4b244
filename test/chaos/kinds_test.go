//go:build linux

package chaos_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/test/relay"
)

// The two lanes of a storm. Faults of one lane come one after the other, so that no two meet on one
// process.
const (
	processes = iota // the members' processes and sessions
	cluster          // Consul, the way to it, and what it allows
	lanes
)

// kind is a way to break something, and to mend it again.
type kind struct {
	name string
	lane int
	// It lasts from least to most; what has a length of its own says how long that is at the most.
	least, most time.Duration
	// its victims are drawn among so many, and so many at most; 0: the fault finds its own
	of, atMost int
	acl        bool // only where there are tokens
	clear      bool // only where a relay can read what it passes on
	starts     bool // its victims are started anew: see birth
	version    bool // and always as the other version
	elsewhere  bool // and always with another TMPDIR
	do         func(w *world, f fault)
}

const second = time.Second

// takenOver is when somebody else has a vanished member's items, if nothing else is wrong and
// nobody hands them over: the guard of a killed coordd does, within a second or two.
const takenOver = 2*ttl + lockDelay + grace + merge + workerSoak + 2*second

// rolling is a restart of one member after the other, each with commands that are killed in the
// end, and a second between two.
const rolling = members * (stopTimeout + 2*second)

// kinds are all that a storm may hold. None of them is known to be harmless.
var kinds = []kind{
	{name: "kill -9 and start again", lane: processes, least: second / 4, most: 14 * second,
		of: members, atMost: 2, starts: true, do: (*world).kill},
	{name: "SIGSTOP of coordd beyond the TTL", lane: processes, least: ttl + 2*second,
		most: ttl + 6*second, of: members, atMost: 1, do: (*world).halt},
	{name: "suspend coordd, guard and children", lane: processes, least: 4 * second,
		most: ttl + 6*second, of: members, atMost: 1, do: (*world).sleep},
	{name: "kill -9 of the guard alone", lane: processes, least: second, most: 3 * second,
		of: members, atMost: 2, do: (*world).killGuard},
	{name: "kill -9 of coordd and guard, and start again", lane: processes, least: second / 4,
		most: 14 * second, of: members, atMost: 2, starts: true, do: (*world).killBoth},
	{name: "kill -9 of coordd and guard until taken over", lane: processes, least: takenOver,
		most: takenOver + 4*second, of: members, atMost: 1, starts: true, do: (*world).killBoth},
	{name: "suspend all until taken over", lane: processes, least: takenOver, most: takenOver +
		4*second, of: members, atMost: 1, do: (*world).sleep},
	{name: "rolling restart of the members", lane: processes, least: rolling, most: rolling,
		of: members, atMost: members, starts: true, do: (*world).restart},
	{name: "rolling restart as the other version", lane: processes, least: rolling, most: rolling,
		of: members, atMost: members, starts: true, version: true, do: (*world).restart},
	{name: "kill -9 and start again with another TMPDIR", lane: processes, least: second / 4,
		most: 3 * second, of: members, atMost: 2, starts: true, elsewhere: true, do: (*world).kill},
	{name: "operator destroys sessions", lane: processes, least: second, most: 2 * second,
		of: members, atMost: members, do: (*world).destroy},
	{name: "operator changes the workload", lane: processes, least: second, most: 2 * second,
		of: members, atMost: members, do: (*world).change},

	{name: "connections refused", lane: cluster, least: 2 * second, most: 14 * second, of: members,
		atMost: 3, do: cut(relay.Refuse)},
	{name: "connections frozen", lane: cluster, least: 2 * second, most: 14 * second, of: members,
		atMost: 3, do: cut(relay.Freeze)},
	{name: "requests do not arrive", lane: cluster, least: 2 * second, most: 14 * second,
		of: members, atMost: 3, do: cut(relay.Deaf)},
	{name: "answers do not arrive", lane: cluster, least: 2 * second, most: 14 * second,
		of: members, atMost: 3, do: cut(relay.Mute)},
	{name: "cut off and session destroyed", lane: cluster, least: ttl + 2*second,
		most: ttl + 6*second, of: members, atMost: 2, do: (*world).cutAndDestroy},
	{name: "cut off until taken over", lane: cluster, least: takenOver, most: takenOver + 4*second,
		of: members, atMost: 1, do: cut(relay.Freeze)},
	{name: "requests delivered twice", lane: cluster, least: 8 * second, most: 16 * second,
		of: members, atMost: members, clear: true, do: (*world).repeat},
	{name: "kill -9 of Consul servers", lane: cluster, least: second, most: 10 * second, of: 3,
		atMost: 2, do: (*world).killServers},
	{name: "SIGSTOP of Consul servers", lane: cluster, least: 2 * second, most: ttl + 4*second,
		of: 3, atMost: 2, do: (*world).haltServers},
	{name: "rolling restart of the Consul servers", lane: cluster, least: 12 * second,
		most: 12 * second, of: 3, atMost: 3, do: (*world).restartServers},
	{name: "Consul servers cut off from the others", lane: cluster, least: 2 * second,
		most: ttl + 4*second, of: 3, atMost: 2, do: (*world).part},
	{name: "Consul's leader cut off from the other servers", lane: cluster, least: 4 * second,
		most: ttl + 6*second, do: (*world).partLeader},
	{name: "tokens revoked", lane: cluster, least: 3 * second, most: ttl + 4*second, of: members,
		atMost: 3, acl: true, do: (*world).revoke},
}

// named is the kind of that name.
func named(name string) kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		panic(fmt.Sprintf("no fault is called %q", name))
	}
	return kinds[i]
}
