package leader

import (
	"fmt"
	"math"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// Seen is what somebody who does not lead has read of a service.
type Seen struct {
	Members, Assignments, Workload []store.Entry
	Quarantines                    []store.Entry // what is noted of items whose work fails
	Orders                         protocol.Orders
}

// Known are the members that are registered or hold anything.
func (s Seen) Known(keys protocol.Keys) map[string]bool {
	known := map[string]bool{}
	for _, e := range s.Members {
		if m, ok := keys.ParseMember(e.Key); ok {
			known[m] = true
		}
	}
	for _, e := range s.Assignments {
		if m, item, ok := keys.ParseAssignment(e.Key); ok && item != "" {
			known[m] = true
		}
	}
	return known
}

// Change is what is imagined beside what is seen.
type Change struct {
	Drain   []string // members that are drained
	Without []string // members that are gone, for longer than any grace
	Add     int      // members more, of the newest version and without a limit
}

// Forecast is what a leader plans for once everything has come to rest: soaks and graces are over,
// and the move budget does not bind.
type Forecast struct {
	Members []placement.Member
	// Drained are also those that are drained now, Gone those that are gone now; Lost are those
	// that are gone in the forecast only.
	Drained, Gone, Lost, New map[string]bool
	Items                    []placement.Item
	Owners                   []string // of each item, gone ones included; empty: none
	Plan                     placement.Outcome
	Removed                  int // items that are no longer in the workload and will be stopped
	Brake                    string
	Quarantined              int // items that nobody is to run
	// Reasons are those of the plan's moves, in words; Prefers, what they prefer their target for.
	Reasons, Prefers []string
	// Version is the newest one, while members carry others; else empty.
	Version string
}

const brakeHold = time.Minute

// NewForecast plans with the leader's own planner. It skips what it cannot read. Its brake holds as
// long as a leader's by default.
func NewForecast(keys protocol.Keys, seen Seen, change Change) Forecast {
	f := Forecast{Drained: map[string]bool{}, Gone: map[string]bool{},
		Lost: map[string]bool{}, New: map[string]bool{}}
	skip := func(store.Entry, string) {}
	members, zones := map[string]facts.Member{}, map[string]string{}
	for e, m := range protocol.Read(seen.Members, keys.ReadMember, skip) {
		members[m.ID], zones[m.ID] = memberOf(e, m), m.Zone
	}
	drained := map[string]time.Time{}
	for id, deadline := range seen.Orders.Drained {
		drained[id], f.Drained[id] = deadline, true
	}
	for _, id := range change.Drain {
		drained[id], f.Drained[id] = time.Time{}, true
	}
	for _, id := range change.Without {
		if _, here := members[id]; here { // it may be named twice
			f.Lost[id] = true
		}
		f.Gone[id] = true
		delete(members, id)
	}
	last := newest(messages.TableOf(members), func(int) bool { return true })
	for n, added := 1, 0; added < change.Add; n++ {
		id := fmt.Sprintf("new-%d", n)
		if _, taken := members[id]; !taken {
			members[id] = facts.Member{WorkVersion: last, CreateIndex: math.MaxUint64}
			f.New[id] = true
			added++
		}
	}
	workload := map[string]facts.WorkItem{}
	for e, w := range protocol.Read(seen.Workload, keys.ReadWorkItem, skip) {
		workload[w.ID] = facts.WorkItem{Weight: w.Weight, CreateIndex: e.CreateIndex,
			ModifyIndex: e.ModifyIndex}
	}
	assigned := known{}
	for e, a := range protocol.Read(seen.Assignments, keys.ReadAssignment, skip) {
		assigned.set(a.Member, a.Item, actor.AssignmentOf(e, a))
	}
	now := time.Now()
	absent := map[string]absence{}
	for _, id := range assigned.holders() {
		if _, here := members[id]; !here {
			f.Gone[id] = true
			absent[id] = absence{asked: now, since: now}
		}
	}
	in := &inputs{now: now, members: messages.TableOf(members),
		workload: messages.TableOf(workload), assigned: assigned,
		control: facts.Control{Drain: messages.TableOf(drained),
			Pins:         messages.TableOf(seen.Orders.Pins),
			Preferred:    messages.TableOf(seen.Orders.Preferred),
			RestartItems: messages.TableOf(seen.Orders.RestartItems)},
		absent: absent, failures: newFailures(), origin: unknownOrigin, zones: zones,
		rest: rest{place: true, balance: true}, limits: limits{hold: brakeHold}}
	in.index = indexOf(in.workload)
	in.failures.load(keys, seen.Quarantines, skip)
	in.failures.dropEnded(in)
	var p plan
	f.Brake = brake{}.next(in, in.newBoard(&p), &p).text
	// An item that waits for nothing but a grace is planned all the same.
	in.now = now.Add(time.Hour)
	b := in.newBoard(&p)
	f.Plan = b.compute()
	f.Members, f.Items, f.Removed = b.members, b.items, len(b.removed)
	f.Quarantined = len(b.free) + len(b.barred)
	f.Owners = make([]string, len(b.keys))
	for i, key := range b.keys {
		f.Owners[i] = key.member
	}
	for _, move := range f.Plan.Moves {
		f.Reasons = append(f.Reasons, string(in.why(move.Reason, f.Items[move.Item].ID)))
		f.Prefers = append(f.Prefers, b.prefers(move))
	}
	f.Version = b.version
	return f
}
