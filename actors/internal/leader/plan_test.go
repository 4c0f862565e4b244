package leader

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

var draftedAt = time.Unix(1_000_000, 0)

// has puts items under a member in the assignment cache. An item with a tilde behind it is asked
// for.
func (s *inputs) has(member string, items ...string) {
	for _, item := range items {
		item, releasing := strings.CutSuffix(item, "~")
		s.assigned.set(member, item, facts.Assignment{Releasing: releasing,
			Session: "s-" + member, CreateIndex: 20, ModifyIndex: 30})
	}
}

// member registers a member, or registers it anew with a change.
func (s *inputs) member(id string, change func(*facts.Member)) {
	all := map[string]facts.Member{}
	for i := range s.members.Len() {
		id, m := s.members.At(i)
		all[id] = m
	}
	m := facts.Member{Session: "s-" + id, CreateIndex: 10}
	if change != nil {
		change(&m)
	}
	all[id] = m
	s.members = messages.TableOf(all)
}

// vanished makes an absence that has been confirmed so long ago. Its grace is 10 s.
func (s *inputs) vanished(id string, ago time.Duration) {
	s.absent[id] = absence{asked: s.now.Add(-ago), since: s.now.Add(-ago), ack: 5,
		grace: 10 * time.Second}
}

// work makes the items the workload.
func (s *inputs) work(items ...string) {
	all := map[string]facts.WorkItem{}
	for _, item := range items {
		all[item] = facts.WorkItem{Weight: 1}
	}
	s.workload = messages.TableOf(all)
	s.index = indexOf(s.workload)
}

// inputsOf is a service with the members n1 and n2 and four items, of which nobody has one, long
// after the last change.
func inputsOf(t *testing.T, changes ...func(*inputs)) *inputs {
	t.Helper()
	s := &inputs{now: draftedAt, assigned: known{}, absent: map[string]absence{},
		failures: newFailures(), origin: unknownOrigin, rest: rest{place: true, balance: true},
		limits: limits{budget: 10, stopping: 10 * time.Second, hold: 5 * time.Minute}}
	s.member("n1", nil)
	s.member("n2", nil)
	s.work("a", "b", "c", "d")
	for _, change := range changes {
		change(s)
	}
	return s
}

// orders are the units of a draft in words: what, of which item, from whom, to whom.
func (p plan) words() []string {
	kinds := [...]string{"grant", "revoke", "cancel", "reap", "erase", "restart", "tell", "sweep",
		"forget"}
	var all []string
	for _, o := range p.orders {
		all = append(all, strings.Join(strings.Fields(fmt.Sprint(kinds[o.kind], " ", o.item, " ",
			o.from, " ", o.to)), " "))
	}
	return all
}

func TestADraftGivesMovesAndTakesBack(t *testing.T) {
	even := func(s *inputs) { s.has("n1", "a", "b"); s.has("n2", "c", "d") }
	all := func(s *inputs) { s.has("n1", "a", "b", "c", "d") }
	lost := func(ago time.Duration) func(*inputs) { // n3 had two items
		return func(s *inputs) {
			s.has("n1", "a")
			s.has("n2", "b")
			s.has("n3", "c", "d")
			s.vanished("n3", ago)
		}
	}
	// n3 was confirmed an hour ago, and a write about it was refused
	doubted := func(s *inputs) {
		s.has("n1", "a", "b", "c")
		s.has("n3", "d")
		s.vanished("n3", time.Hour)
		away := s.absent["n3"]
		away.doubt = true
		s.absent["n3"] = away
	}
	changed := func(s *inputs) { // n1 asks for changes, n2 does not; b has not changed since
		even(s)
		s.workload = messages.TableOf(map[string]facts.WorkItem{
			"a": {Weight: 1, ModifyIndex: 40}, "b": {Weight: 1, ModifyIndex: 15},
			"c": {Weight: 1, ModifyIndex: 40}, "d": {Weight: 1, ModifyIndex: 40}})
		s.member("n1", func(m *facts.Member) { m.TellChanges = true })
	}
	stopping := func(ago time.Duration) func(*inputs) { // n2 is drained, and gives c up
		return func(s *inputs) {
			s.has("n1", "a", "b")
			s.has("n2", "c~", "d")
			s.budget, s.onTheMove = 1, map[string]time.Time{"c": s.now.Add(-ago)}
			s.control.Drain = messages.TableOf(map[string]time.Time{"n2": {}})
		}
	}
	for name, c := range map[string]struct {
		changes []func(*inputs)
		want    []string
		waiting bool
		wake    time.Duration // 0: never
	}{
		"free items are given out evenly": {nil, []string{"grant a n1", "grant b n1",
			"grant c n2", "grant d n2"}, false, 0},
		"not before it is quiet": {[]func(*inputs){func(s *inputs) { s.place = false }}, nil,
			true, 0},
		"nothing to do": {[]func(*inputs){even}, nil, false, 0},
		"balance":       {[]func(*inputs){all}, []string{"revoke a n1", "revoke b n1"}, false, 0},
		"balance, within the budget": {[]func(*inputs){all, func(s *inputs) { s.budget = 1 }},
			[]string{"revoke a n1"}, false, 0},
		"no balance before the soak": {[]func(*inputs){all, func(s *inputs) {
			s.balance = false
		}}, nil, true, 0},
		"no balance within a grace": {[]func(*inputs){func(s *inputs) {
			s.has("n1", "a", "b", "c")
			s.has("n3", "d")
			s.vanished("n3", 4*time.Second)
		}}, nil, false, 6 * time.Second},
		"a lost member within its grace": {[]func(*inputs){lost(4 * time.Second)}, nil, false,
			6 * time.Second},
		"a lost member after its grace": {[]func(*inputs){lost(10 * time.Second)},
			[]string{"reap c n3 n1", "reap d n3 n2"}, false, 0},
		"a lost member that is not confirmed": {[]func(*inputs){lost(0), func(s *inputs) {
			s.absent["n3"] = absence{asked: s.now}
		}}, nil, false, 0},
		"no balance while an absence is in doubt": {[]func(*inputs){doubted}, nil, false, 0},
		"a lost member that held nothing": {[]func(*inputs){even, func(s *inputs) {
			s.vanished("n3", 10*time.Second)
		}}, []string{"sweep n3"}, false, 0},
		"it is not swept within its grace": {[]func(*inputs){even, func(s *inputs) {
			s.vanished("n3", 9*time.Second)
		}}, nil, false, time.Second},
		"an item that was removed": {[]func(*inputs){even, func(s *inputs) {
			s.work("a", "b", "c")
		}}, []string{"revoke d n2"}, false, 0},
		"an item that was removed just now": {[]func(*inputs){even, func(s *inputs) {
			s.work("a", "b", "c")
			s.place = false
		}}, nil, true, 0},
		"an item that was removed and is asked for": {[]func(*inputs){func(s *inputs) {
			s.has("n1", "a", "b")
			s.has("n2", "c", "d~")
			s.work("a", "b", "c")
		}}, nil, false, 0},
		"a lost member's item that was removed": {[]func(*inputs){lost(time.Minute),
			func(s *inputs) { s.work("a", "b", "c") }},
			[]string{"reap c n3 n1", "erase d n3"}, false, 0},
		"two keys of one item": {[]func(*inputs){even, func(s *inputs) {
			s.assigned.set("n2", "a", facts.Assignment{Session: "s-n2", CreateIndex: 21,
				ModifyIndex: 31})
		}}, []string{"revoke a n2"}, false, 0},
		"two keys of one item, and the elder's member is lost": {[]func(*inputs){
			lost(time.Minute), func(s *inputs) {
				s.assigned.set("n2", "c", facts.Assignment{Session: "s-n2", CreateIndex: 21,
					ModifyIndex: 31})
			}}, []string{"reap d n3 n1", "revoke c n2"}, false, 0},
		"two keys of one item, and the younger is asked for": {[]func(*inputs){
			lost(time.Minute), func(s *inputs) {
				s.assigned.set("n2", "c", facts.Assignment{Session: "s-n2", CreateIndex: 21,
					ModifyIndex: 31, Releasing: true})
			}}, []string{"reap d n3 n1"}, false, 0},
		"two keys of one item, both of lost members": {[]func(*inputs){
			lost(time.Minute), func(s *inputs) {
				s.assigned.set("n4", "c", facts.Assignment{Session: "s-n4", CreateIndex: 21,
					ModifyIndex: 31})
				s.vanished("n4", 4*time.Second)
			}}, []string{"reap d n3 n1"}, false, 6 * time.Second},
		"an unreadable key": {[]func(*inputs){even, func(s *inputs) {
			s.assigned.set("n2", "d", facts.Assignment{Unreadable: true, CreateIndex: 20,
				ModifyIndex: 31})
		}}, []string{"revoke d n2"}, false, 0},
		"a key for another session": {[]func(*inputs){even, func(s *inputs) {
			s.assigned.set("n2", "d", facts.Assignment{Session: "x", CreateIndex: 20,
				ModifyIndex: 31})
		}}, []string{"revoke d n2"}, false, 0},
		"a key of an earlier session": {[]func(*inputs){even, func(s *inputs) {
			s.assigned.set("n2", "d", facts.Assignment{Session: "x", CreateIndex: 9,
				ModifyIndex: 31})
		}}, nil, false, 0},
		"an item that may stay is called back": {[]func(*inputs){func(s *inputs) {
			s.has("n1", "a", "b~")
			s.has("n2", "c", "d")
		}}, []string{"cancel b n1"}, false, 0},
		"a leaving member gives up by itself": {[]func(*inputs){even, func(s *inputs) {
			s.member("n2", func(m *facts.Member) { m.Leaving = true })
		}}, nil, false, 0},
		"a member without work gets none": {[]func(*inputs){func(s *inputs) {
			s.member("n2", func(m *facts.Member) { m.Idle = true })
		}}, []string{"grant a n1", "grant b n1", "grant c n1", "grant d n1"}, false, 0},
		"an unreadable record keeps its items and gets none": {[]func(*inputs){
			func(s *inputs) {
				s.has("n2", "a")
				s.member("n2", func(m *facts.Member) { m.Unreadable = true })
			}}, []string{"grant b n1", "grant c n1", "grant d n1"}, false, 0},
		"no room": {[]func(*inputs){func(s *inputs) {
			s.member("n1", func(m *facts.Member) { m.Capacity = 1 })
			s.member("n2", func(m *facts.Member) { m.Capacity = 1 })
		}}, []string{"grant a n1", "grant b n2"}, false, 0},
		"a drained member": {[]func(*inputs){even, func(s *inputs) {
			s.control.Drain = messages.TableOf(map[string]time.Time{"n2": {}})
		}}, []string{"revoke c n2", "revoke d n2"}, false, 0},
		"a drained member, within the budget": {[]func(*inputs){even, func(s *inputs) {
			s.control.Drain, s.budget = messages.TableOf(map[string]time.Time{"n2": {}}), 1
		}}, []string{"revoke c n2"}, false, 0},
		"a drained member before its deadline": {[]func(*inputs){even, func(s *inputs) {
			s.budget = 1
			s.control.Drain = messages.TableOf(map[string]time.Time{
				"n2": s.now.Add(time.Minute)})
		}}, []string{"revoke c n2"}, false, time.Minute},
		"a drained member at its deadline": {[]func(*inputs){even, func(s *inputs) {
			s.budget = 1
			s.control.Drain = messages.TableOf(map[string]time.Time{"n2": s.now})
		}}, []string{"revoke c n2", "revoke d n2"}, false, 0},
		"a drained member whose first item stops slowly": {[]func(*inputs){stopping(4 *
			time.Second)}, nil, false, 6 * time.Second},
		"a drained member whose first item does not stop": {[]func(*inputs){stopping(10 *
			time.Second)}, []string{"revoke d n2"}, false, 0},
		"a pin, and what makes room for it": {[]func(*inputs){even, func(s *inputs) {
			s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
		}}, []string{"revoke a n1", "revoke c n2"}, false, 0},
		"a restart of an item, and one that came before its grant": {[]func(*inputs){even,
			func(s *inputs) {
				s.control.RestartItems = messages.TableOf(map[string]uint64{"a": 40, "b": 15,
					"c": 40, "x": 40})
				s.control.Drain = messages.TableOf(map[string]time.Time{"n2": {}})
			}}, []string{"restart a n1", "revoke c n2", "revoke d n2"}, false, 0},
		"a restart of a member, of which one was carried out": {[]func(*inputs){even,
			func(s *inputs) {
				s.control.RestartMembers = messages.TableOf(map[string]uint64{"n2": 40})
				s.assigned.set("n2", "c", facts.Assignment{Session: "s-n2", CreateIndex: 20,
					ModifyIndex: 41, Restart: 40})
			}}, []string{"restart d n2"}, false, 0},
		"a restart of what is to move for balance, later": {[]func(*inputs){all,
			func(s *inputs) {
				s.balance = false
				s.control.RestartMembers = messages.TableOf(map[string]uint64{"n1": 40})
			}}, []string{"restart a n1", "restart b n1", "restart c n1", "restart d n1"}, true, 0},
		"a restart of what moves now": {[]func(*inputs){all, func(s *inputs) {
			s.budget = 1
			s.control.RestartMembers = messages.TableOf(map[string]uint64{"n1": 40})
		}}, []string{"revoke a n1", "restart b n1", "restart c n1", "restart d n1"}, false, 0},
		"no restart of what was started since": {[]func(*inputs){even, func(s *inputs) {
			s.control.RestartMembers = messages.TableOf(map[string]uint64{"n2": 40})
			s.member("n2", func(m *facts.Member) { m.CreateIndex = 50 })
		}}, nil, false, 0},
		"changes": {[]func(*inputs){changed}, []string{"tell a n1"}, false, 0},
		"a change that was told of": {[]func(*inputs){changed, func(s *inputs) {
			s.assigned.set("n1", "a", facts.Assignment{Session: "s-n1", CreateIndex: 20,
				ModifyIndex: 41, Changed: 40})
		}}, nil, false, 0},
		"a change before an order to restart": {[]func(*inputs){changed, func(s *inputs) {
			s.control.RestartItems = messages.TableOf(map[string]uint64{"a": 50})
		}}, []string{"restart a n1"}, false, 0},
		"a change before an order that was passed on": {[]func(*inputs){changed,
			func(s *inputs) {
				s.assigned.set("n1", "a", facts.Assignment{Session: "s-n1", CreateIndex: 20,
					ModifyIndex: 51, Restart: 50})
			}}, nil, false, 0},
		"an order to restart before a change that was told of": {[]func(*inputs){changed,
			func(s *inputs) {
				s.control.RestartItems = messages.TableOf(map[string]uint64{"a": 30})
				s.assigned.set("n1", "a", facts.Assignment{Session: "s-n1", CreateIndex: 20,
					ModifyIndex: 41, Changed: 40})
			}}, []string{"restart a n1"}, false, 0},
		"no change of what was started since": {[]func(*inputs){changed, func(s *inputs) {
			s.member("n1", func(m *facts.Member) { m.CreateIndex, m.TellChanges = 50, true })
		}}, nil, false, 0},
		"no change of what moves now": {[]func(*inputs){changed, func(s *inputs) {
			s.control.Drain = messages.TableOf(map[string]time.Time{"n1": {}})
		}}, []string{"revoke a n1", "revoke b n1"}, false, 0},
		"a pin to a member that is not there": {[]func(*inputs){func(s *inputs) {
			s.work("a")
			s.control.Pins = messages.TableOf(map[string]string{"a": "n9"})
		}}, nil, false, 0},
		"frozen": {[]func(*inputs){func(s *inputs) { s.control.Freeze = true }}, nil, false,
			0},
	} {
		t.Run(name, func(t *testing.T) {
			d := inputsOf(t, c.changes...).plan()
			if got := d.words(); !slices.Equal(got, c.want) {
				t.Errorf("orders %q; want %q", got, c.want)
			}
			if d.waiting != c.waiting {
				t.Errorf("waiting %v; want %v", d.waiting, c.waiting)
			}
			want := time.Time{}
			if c.wake != 0 {
				want = draftedAt.Add(c.wake)
			}
			if !d.wake.Equal(want) {
				t.Errorf("wakes after %v; want %v", d.wake.Sub(draftedAt), c.wake)
			}
			if settled := d.brake.text == "" && len(c.want) == 0 && !c.waiting && c.wake == 0 &&
				d.says.Releasing == 0; d.says.Settled != settled {
				t.Errorf("settled %v; want %v", d.says.Settled, settled)
			}
		})
	}
}

func TestADraftCountsWhatIsOwnedFreeAndOnItsWay(t *testing.T) {
	s := inputsOf(t, func(s *inputs) {
		s.work("a", "b", "c", "d", "e", "f")
		s.has("n1", "a", "b~")
		s.has("n3", "c")
		s.vanished("n3", time.Second)
		s.has("n4", "d")
		s.vanished("n4", time.Minute)
	})
	p := s.plan().says
	if p.Total != 6 || p.Owned != 2 || p.Releasing != 1 || p.Free != 3 {
		t.Errorf("%d items, %d owned, %d on their way, %d free; want 6, 2 (one of them waits for "+
			"its member), 1, 3", p.Total, p.Owned, p.Releasing, p.Free)
	}
	if n1, _ := p.Shares.Get("n1"); n1.Items != 2 || n1.Weight != 2 || n1.Releasing != 1 {
		t.Errorf("the share of n1: %+v", n1)
	}
}
