package leader

import (
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

func tableOf[T any](m map[string]T) messages.Table[T] { return messages.TableOf(m) }

// present is a view of members that are there, each with its session.
func present(sessions map[string]string) view {
	members := map[string]facts.Member{}
	for id, session := range sessions {
		members[id] = facts.Member{Session: session}
	}
	return view{members: tableOf(members), holds: func(string) int { return 3 },
		absent: map[string]absence{}}
}

func said(events []protocol.Event) []string {
	out := []string{}
	for _, e := range events {
		line := e.What + " " + e.From + e.To
		if e.Why != "" {
			line += " " + e.Why
		}
		out = append(out, line)
	}
	return out
}

func TestWhatStandsIsToldOnce(t *testing.T) {
	s := newStanding()
	s.begin(view{}, true)
	s.led = true
	step := func(what string, v view, want ...string) {
		t.Helper()
		news := s.news("n1", v)
		if got := said(news); !slices.Equal(got, append([]string{}, want...)) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		if again := s.news("n1", v); len(again) != len(news) {
			t.Errorf("%s, before it is in the log: %q", what, said(again))
		}
		s.told(news, v)
		if got := said(s.news("n1", v)); len(got) > 0 {
			t.Errorf("%s, again: %q", what, got)
		}
	}
	both := map[string]string{"n1": "a", "n2": "b"}
	step("the beginning", present(both), "joined n1", "joined n2")
	one := present(map[string]string{"n1": "a"})
	one.absent["n2"] = absence{asked: time.Unix(1, 0)}
	step("not confirmed", one)
	one.absent["n2"] = absence{since: time.Unix(2, 0), ack: 7}
	step("confirmed", one, "lost n2")
	step("swept", present(map[string]string{"n1": "a"}))
	step("back", present(both), "joined n2")
	step("a new session", present(map[string]string{"n1": "a", "n2": "c"}), "joined n2 again")
	step("a goodbye that nobody announced", present(map[string]string{"n1": "a"}),
		"left n2 unannounced")
	step("back once more", present(map[string]string{"n1": "a", "n2": "d"}), "joined n2")
	leaving := present(map[string]string{"n1": "a"})
	leaving.members = tableOf(map[string]facts.Member{"n1": {Session: "a"},
		"n2": {Session: "d", Leaving: true}})
	step("it says that it stops", leaving, "leaving n2")
	step("and is gone", present(map[string]string{"n1": "a"}), "left n2")

	v := present(map[string]string{"n1": "a"})
	v.control = facts.Control{Index: 1, Freeze: true,
		By:    tableOf(map[string]string{protocol.FreezeOrder: "ann"}),
		Drain: tableOf(map[string]time.Time{"n1": {}}), Pins: tableOf(map[string]string{"x": "n1"}),
		Preferred: tableOf(map[string]string{"y": "n2"})}
	v.brake = brake{text: frozen}
	step("orders", v, "drained n1", "pinned n1", "preferred n2", "frozen ")
	v.control = facts.Control{Index: 2, Override: 2}
	v.brake = brake{cause: brakeForItems, text: "items are gone"}
	step("other orders", v, "undrained n1", "unpinned ", "unpreferred ", "thawed ", "overridden ",
		"brake-on  items are gone")
	v.brake.text = "more items are gone"
	step("the brake still on", v)
	v.brake = brake{}
	step("the brake off", v, "brake-off ")
}

func TestALeaderTellsWhatHappenedWhileNobodyLed(t *testing.T) {
	for name, c := range map[string]struct {
		complete bool
		want     []string
	}{
		"the log is whole":    {true, []string{"joined n1", "joined n4", "lost n2", "drained n4"}},
		"the log has wrapped": {false, []string{"joined n1", "lost n2"}},
	} {
		s := newStanding()
		s.led = true
		for _, e := range []protocol.Event{
			{What: protocol.EventLeft, From: "n1"}, // and is there again
			{What: protocol.EventJoined, To: "n2"},
			{What: protocol.EventJoined, To: "n3"},
			{What: protocol.EventLost, From: "n5"}, // as it is still
			{What: protocol.EventFrozen},
		} {
			s.learn(e)
		}
		v := present(map[string]string{"n1": "a", "n3": "c", "n4": "d"})
		v.absent["n2"] = absence{since: time.Unix(1, 0), ack: 1}
		v.absent["n5"] = absence{since: time.Unix(1, 0), ack: 1}
		v.control = facts.Control{Index: 9, Freeze: true, Override: 3,
			Drain: tableOf(map[string]time.Time{"n4": {}})}
		s.begin(v, c.complete)
		if got := said(s.news("n9", v)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheLogGoesOnBehindItsNewestRecord(t *testing.T) {
	keys, err := protocol.KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		slots []int // of records, in Consul's order
		next  int
	}{
		"empty": {nil, 0}, "begun": {[]int{0, 1, 2}, 3}, "wrapped": {[]int{7, 254, 255}, 0},
		"a stranger's in between": {[]int{0, 1, 9}, 10},
		"a later version's":       {[]int{5, 300}, 6},
	} {
		l := newEventLog(keys, "n1")
		var records []protocol.EventRecord
		for _, slot := range c.slots {
			records = append(records, protocol.EventRecord{Slot: slot, Leader: "n2"})
		}
		l.load(records, 7, 7, known{})
		if l.next != c.next {
			t.Errorf("%s: goes on in slot %d, want %d", name, l.next, c.next)
		}
	}
}
