package leader

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

func TestItemsStayInTheirZone(t *testing.T) {
	in := func(zone string) func(*facts.Member) {
		return func(m *facts.Member) { m.Zone = zone }
	}
	zones := func(s *inputs) { // one member in a, and one in b
		s.member("n1", in("a"))
		s.member("n2", in("b"))
		s.zones = map[string]string{"n1": "a", "n2": "b", "n3": "b", "n4": "a"}
		s.has("n1", "a")
		s.has("n2", "b")
	}
	lost := func(s *inputs) { // one of each zone, which had an item each
		s.has("n3", "c")
		s.has("n4", "d")
		s.vanished("n3", time.Minute)
		s.vanished("n4", time.Minute)
	}
	for name, test := range map[string]struct {
		change func(*inputs)
		want   []string
	}{
		"of lost members": {lost, []string{"reap d n4 n1: takeover, prefers zone a",
			"reap c n3 n2: takeover, prefers zone b"}},
		"of members that have left": {func(s *inputs) {
			s.origin = func(item string) (origin, bool) {
				return origin{map[string]string{"c": "n3", "d": "n4"}[item], "left"}, true
			}
		}, []string{"grant d n1: left, prefers zone a", "grant c n2: left, prefers zone b"}},
		"of members whose zone nobody knows": {func(s *inputs) {
			lost(s)
			s.zones = nil
		}, []string{"reap c n3 n1: takeover", "reap d n4 n2: takeover"}},
		"of members of which nobody knows": {func(*inputs) {},
			[]string{"grant c n1: new", "grant d n2: new"}},
		"where all are in one": {func(s *inputs) {
			lost(s)
			s.member("n2", in("a"))
		}, []string{"reap c n3 n1: takeover", "reap d n4 n2: takeover"}},
		"where one has a version, too": {func(s *inputs) {
			lost(s)
			s.member("n1", func(m *facts.Member) {
				m.Zone, m.WorkVersion, m.CreateIndex = "a", "2", 12
			})
			s.member("n2", func(m *facts.Member) { m.Zone, m.WorkVersion = "b", "1" })
		}, []string{"reap c n3 n1: takeover, prefers version 2",
			"reap d n4 n1: takeover, prefers version 2"}},
		"of a group": {func(s *inputs) {
			s.work("x:1", "x:2", "y:1", "y:2")
			s.assigned = known{}
			s.has("n1", "x:1")
			s.has("n2", "y:1")
		}, []string{"grant y:2 n1: new, prefers zone a for its group",
			"grant x:2 n2: new, prefers zone b for its group"}},
	} {
		var got []string
		d := inputsOf(t, zones, test.change).plan()
		for k, what := range d.words() {
			got = append(got, fmt.Sprint(what, ": ", d.orders[k].cause))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestTheZonesOfThoseThatAreGoneAreKept(t *testing.T) {
	z := zoneMemory{}
	see := func(absent map[string]absence, in map[string]facts.Member) {
		z.see(messages.TableOf(in), absent)
	}
	see(nil, map[string]facts.Member{"n1": {Zone: "a"}, "n2": {Zone: "b"}})
	see(nil, map[string]facts.Member{"n2": {Unreadable: true}})
	if z["n1"] != "a" || z["n2"] != "b" {
		t.Errorf("%v", z)
	}
	many := map[string]facts.Member{}
	for i := range 5000 {
		many[fmt.Sprint("m", i)] = facts.Member{}
	}
	see(nil, many)
	if see(map[string]absence{"m7": {}}, nil); len(z) != 1 {
		t.Errorf("%d zones are kept of members that are neither here nor missed", len(z))
	}
}
