package leader

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// drawn is a service at rest or not, drawn at random: members with and without limits, drained and
// absent ones, items of some weights, who has them, operators' pins and wishes, what has failed
// where, and what will.
type drawn struct {
	*inputs
	index uint64          // of Consul
	sick  map[string]bool // "member item": the work fails there
}

func draw(t *testing.T, seed uint64) *drawn {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &drawn{inputs: inputsOf(t), index: 100, sick: map[string]bool{}}
	s.members = messages.TableOf(map[string]facts.Member{})
	var ids, all []string
	drained := map[string]time.Time{}
	for i := range 1 + r.IntN(5) {
		id := fmt.Sprintf("n%d", i+1)
		capacity := uint64(0)
		if r.IntN(2) == 0 {
			capacity = uint64(1 + r.IntN(6))
		}
		s.holds(id, capacity)
		if r.IntN(8) == 0 {
			drained[id] = time.Time{}
		}
		ids = append(ids, id)
	}
	all = append(slices.Clone(ids), "n9") // which is not there
	holders := ids
	if r.IntN(3) == 0 { // its grace is over soon
		holders = append(slices.Clone(ids), "n8")
		s.vanished("n8", time.Duration(r.IntN(12))*time.Second)
	}
	anyOf := func(from []string) string { return from[r.IntN(len(from))] }
	weights, pins, prefers := map[string]uint64{}, map[string]string{}, map[string]string{}
	heavy := r.IntN(3) == 0
	for i := range 1 + r.IntN(12) {
		item := fmt.Sprintf("w%02d", i)
		weights[item] = 1
		if n := r.IntN(4); heavy {
			weights[item] += uint64(n)
		}
		if r.IntN(3) > 0 {
			s.has(anyOf(holders), item)
		}
		if r.IntN(8) == 0 {
			pins[item] = anyOf(all)
		} else if to := anyOf(all); r.IntN(4) == 0 {
			prefers[item] = to
		}
		if r.IntN(5) == 0 {
			s.failed(item, time.Minute, anyOf(holders)+[]string{"", "", "*"}[r.IntN(3)])
		}
		for range r.IntN(2) {
			s.sick[anyOf(ids)+" "+item] = true
		}
	}
	if r.IntN(4) == 0 { // a sick host
		at := anyOf(ids)
		for item := range weights {
			s.sick[at+" "+item] = true
		}
	}
	s.weighs(weights)
	s.control = facts.Control{Drain: messages.TableOf(drained), Pins: messages.TableOf(pins),
		Preferred: messages.TableOf(prefers)}
	s.budget = 1 + r.IntN(4)
	return s
}

// report has each owner say of its items that fail that they do.
func (s *drawn) report() {
	clear(s.failures.reports)
	for member, items := range s.assigned {
		for item, a := range items {
			if m, _ := s.members.Get(member); s.sick[member+" "+item] && !a.Releasing {
				s.failures.reports[member] = append(s.failures.reports[member], report{m.Session,
					protocol.WorkReport{ID: item, Grant: max(a.CreateIndex, m.CreateIndex)}})
			}
		}
	}
}

// apply carries the orders of a draft out, and has the members release what they are asked for.
func (s *drawn) apply(t *testing.T, d plan) {
	for _, o := range d.orders {
		s.index++
		switch o.kind {
		case orderGrant:
			for member, items := range s.assigned {
				if _, has := items[o.item]; has {
					t.Errorf("%s is given to %s, and %s has it", o.item, o.to, member)
				}
			}
			s.assigned.set(o.to, o.item, facts.Assignment{Session: o.session,
				CreateIndex: s.index, ModifyIndex: s.index})
			if o.note != nil {
				s.failures.applied(&o, s.index)
			}
		case orderRevoke:
			a := s.assigned[o.from][o.item]
			a.Releasing, a.ModifyIndex = true, s.index
			s.assigned.set(o.from, o.item, a)
			if o.note != nil {
				s.failures.applied(&o, s.index)
			}
		case orderReap:
			if !s.absent[o.from].over(s.now) {
				t.Errorf("%s is taken over in the grace", o.item)
			}
			s.assigned.drop(o.from, o.item)
			s.assigned.set(o.to, o.item, facts.Assignment{Session: o.session,
				CreateIndex: s.index, ModifyIndex: s.index})
		case orderErase:
			s.assigned.drop(o.from, o.item)
		case orderSweep:
			delete(s.absent, o.from)
		case orderForget:
			delete(s.failures.notes, o.item)
		default:
			t.Fatalf("the order %+v", o)
		}
	}
	for member, items := range s.assigned {
		for item, a := range items {
			if a.Releasing {
				s.assigned.drop(member, item)
			}
		}
	}
}

// settle drafts until nothing is to be done, and returns the items without an owner.
func (s *drawn) settle(t *testing.T) (free []string) {
	for range 200 {
		s.now = s.now.Add(time.Second)
		s.report()
		d := s.plan()
		if len(d.orders) > 0 || len(s.absent) > 0 && !s.absent["n8"].over(s.now) {
			s.apply(t, d)
			continue
		}
		for id := range s.workload.IDs() {
			held := false
			for _, items := range s.assigned {
				_, has := items[id]
				held = held || has
			}
			if !held {
				free = append(free, id)
			}
		}
		return free
	}
	t.Errorf("it does not settle: %q", s.plan().words())
	return nil
}

// Whatever is pinned, preferred, drained, full and sick: the drafts come to rest, and then an item
// has no owner only if it is quarantined, if an operator has pinned it, or if no member has room
// for it.
func TestDraftsSettleAndLeaveNoItemThatFits(t *testing.T) {
	for seed := range uint64(3000) {
		s := draw(t, seed)
		free := s.settle(t)
		loads := map[string]uint64{}
		for member, items := range s.assigned {
			for item := range items {
				w, _ := s.workload.Get(item)
				loads[member] += w.Weight
			}
		}
		for _, item := range free {
			w, _ := s.workload.Get(item)
			if s.control.Pins.Has(item) || s.failures.notes[item].Since != 0 {
				continue
			}
			for id, m := range s.members.All() {
				if !s.control.Drain.Has(id) && (m.Capacity == 0 || loads[id]+w.Weight <=
					m.Capacity) {
					t.Errorf("seed %d: %s has no owner, and %s has %d of %d", seed, item, id,
						loads[id], m.Capacity)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}
