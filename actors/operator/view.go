package operator

import (
	"context"
	"fmt"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// view is what Consul holds of a service, read into values. What becomes of an item follows from it
// alone: no clock and no I/O.
type view struct {
	keys   protocol.Keys
	leader string // empty: nobody leads
	epoch  uint64
	orders protocol.Orders
	brake  string
	// note is the leader's own note; that of a leader before it says nothing of now.
	note       protocol.LeaderState
	members    map[string]*memberView
	acks       map[string]ackView
	work       map[string]bool
	workload   uint64            // the index of its prefix, if it was not weighed
	weights    map[string]uint64 // of items; nil: not read, and each counts as 1
	changed    map[string]uint64 // the index of an item's last change; nil: not read
	failed     map[string]failedView
	assigned   []keyView              // in the order of members and items
	doubts     map[string]store.Doubt // by instance: see DoubtedInstances of [store.Store]
	unreadable []string
}

// view reads the service; weighed: with the weights of the items, and so with their payloads.
func (c *Client) view(ctx context.Context, weighed bool) (*view, error) {
	k := c.keys
	v := &view{keys: k, members: map[string]*memberView{}, acks: map[string]ackView{},
		work: map[string]bool{}, failed: map[string]failedView{}}
	err := v.readLeader(ctx, c.store)
	list := func(prefix string) (entries []store.Entry) {
		if err == nil {
			entries, _, err = c.store.List(ctx, prefix, store.Consistent)
		}
		return entries
	}
	for e, m := range protocol.Read(list(k.Members()), k.ReadMember, v.skip) {
		if m.Unreadable {
			m.Status = "unreadable"
		}
		v.members[m.ID] = &memberView{Member: m, session: e.Session, index: e.CreateIndex}
	}
	if v.orders = k.ReadOrders(list(k.Control()), v.skip); !v.orders.Frozen {
		v.brake = v.note.Brake
	}
	for e, a := range protocol.Read(list(k.Acks()), k.ReadAck, v.skip) {
		v.acks[a.Member] = ackView{a, e.ModifyIndex}
	}
	var work []store.Entry
	if weighed {
		work, v.weights, v.changed = list(k.Workload()), map[string]uint64{}, map[string]uint64{}
	} else if err == nil {
		var names []string
		names, v.workload, err = c.store.ListKeys(ctx, k.Workload(), "")
		for _, name := range names {
			work = append(work, store.Entry{Key: name})
		}
	}
	for e, w := range protocol.Read(work, k.ReadWorkItem, v.skip) {
		v.work[w.ID] = true
		if weighed {
			v.weights[w.ID], v.changed[w.ID] = e.Flags, e.ModifyIndex
		}
	}
	// Before the assignments: a key that is younger than its owner's summary shows by its index.
	for _, w := range protocol.Read(list(k.States()), k.ReadWorkSummary, v.skip) {
		if m := v.members[w.Member]; m != nil {
			m.tell(w.WorkSummary)
		}
	}
	for e, q := range protocol.Read(list(k.Quarantines()), k.ReadQuarantine, v.skip) {
		v.failed[q.Item] = failedView{q.Quarantine, e.ModifyIndex}
	}
	v.readAssigned(list(k.Assignments()))
	if err != nil {
		return nil, fmt.Errorf("looking at service %q: %w", k.Service(), err)
	}
	// Without it no more is missing than since when somebody is silent, and who tells old states.
	v.doubts, _ = c.store.DoubtedInstances(ctx, k.Service())
	for _, m := range v.members {
		m.doubt = v.doubt(m.ID, m.Process)
	}
	return v, nil
}

func (v *view) readLeader(ctx context.Context, s *protocol.Store) error {
	key, _, _, err := s.Get(ctx, v.keys.Leader(), store.Consistent)
	if err != nil {
		return err
	}
	state, _, _, err := s.Get(ctx, v.keys.LeaderState(), store.Consistent)
	if err != nil {
		return err
	}
	if id, led, err := v.keys.ReadLeader(key); led {
		v.leader, v.epoch = id, key.ModifyIndex
		if err != nil {
			v.skip(key, "")
		}
	}
	if note, err := v.keys.ReadLeaderState(state); err != nil {
		v.skip(state, "")
	} else if v.leader != "" && note.By == key.Session {
		v.note = note
	}
	return nil
}

// readAssigned takes who has which item. Of two keys of an item the elder one counts.
func (v *view) readAssigned(entries []store.Entry) {
	first := map[string]int{}
	for e, a := range protocol.Read(entries, v.keys.ReadAssignment, v.skip) {
		n, twice := first[a.Item]
		if !twice {
			first[a.Item] = len(v.assigned)
			v.assigned = append(v.assigned, keyView{a, e.CreateIndex})
			continue
		}
		v.skip(e, "") // the protocol does not do that
		if v.assigned[n].created > e.CreateIndex {
			v.assigned[n] = keyView{a, e.CreateIndex}
		}
	}
}

// skip notes a key that this version cannot read.
func (v *view) skip(e store.Entry, _ string) {
	if len(v.unreadable) < 10 {
		v.unreadable = append(v.unreadable, store.Shorten(e.Key))
	}
}

// doubt is why a process of a member is not to be relied on; zero: it is.
func (v *view) doubt(member string, by protocol.Process) store.Doubt {
	if by.Instance == "" {
		return store.Doubt{}
	}
	return v.doubts[store.InstanceID(v.keys.Service(), member, by.Instance)]
}

// memberView is a registered member.
type memberView struct {
	protocol.Member
	session string
	index   uint64                // CreateIndex of its record
	summary *protocol.WorkSummary // nil: it does not tell what its work does
	reports map[string]protocol.WorkReport
	// missing are items that the summary counts and does not name, by state
	missing map[string]int
	rest    ItemState   // of all that it does not name, if that is one state; empty: it is not
	doubt   store.Doubt // zero: it is heard, or that is not known
	used    uint64      // the weight of what it has
}

type ackView struct {
	protocol.MemberAck
	index uint64
}

// failedView is what the leader has noted of an item whose work fails too often.
type failedView struct {
	protocol.Quarantine
	index uint64
}

type keyView struct {
	protocol.ItemAssignment
	created uint64
}

// leaseOf is how long a member's lease lasts, in milliseconds; 0: it does not say.
func (v *view) leaseOf(m *memberView) int64 {
	if a := v.acks[m.ID]; a.Session == m.session {
		return a.TTL.Milliseconds()
	}
	return 0
}

// tell takes a member's summary, if it is of the session that its record is locked by.
func (m *memberView) tell(s protocol.WorkSummary) {
	if s.Session != m.session {
		return
	}
	m.summary, m.reports, m.missing = &s, map[string]protocol.WorkReport{}, map[string]int{}
	running := s.Counts[protocol.WorkRunning]
	for state, n := range s.Counts {
		if state != protocol.WorkRunning && state != protocol.WorkWaiting {
			m.missing[state] = n
		}
	}
	for _, r := range s.Items {
		m.reports[r.ID] = r
		if m.missing[r.State]--; m.missing[r.State] <= 0 {
			delete(m.missing, r.State)
		}
		if r.State == protocol.WorkRunning {
			running--
		}
	}
	if len(m.missing) == 0 {
		m.rest = ItemRunning
	} else if len(m.missing) == 1 && running <= 0 {
		for state := range m.missing {
			m.rest = ItemState(state)
		}
	}
}
