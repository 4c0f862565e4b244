package leader

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// failed notes that the work of an item has failed at members so long ago; one with an asterisk was
// registered anew since.
func (s *inputs) failed(item string, ago time.Duration, members ...string) {
	n := note{index: 40}
	for _, id := range members {
		id, anew := strings.CutSuffix(id, "*")
		f := protocol.FailedOwner{Member: id, Session: "s-" + id,
			At: s.now.Add(-ago).UnixMilli()}
		if anew {
			f.Session = "another"
		}
		n.Failed = append(n.Failed, f)
	}
	s.failures.notes[item] = n
}

// bar quarantines an item whose work has failed, by a leader that knew of orders and items up to an
// index; 0: it does not say.
func (s *inputs) bar(item string, knew uint64) {
	n := s.failures.notes[item]
	n.Since, n.Orders, n.Made = s.now.UnixMilli(), knew, knew
	n.Here = []string{"n1", "n2", "n5"}
	s.failures.notes[item] = n
}

// says has a member say that the work of an item fails too often.
func (s *inputs) says(member, item string, change func(*report)) {
	r := report{session: "s-" + member, WorkReport: protocol.WorkReport{ID: item, Grant: 20}}
	if change != nil {
		change(&r)
	}
	s.failures.reports[member] = append(s.failures.reports[member], r)
}

func TestAPlanOfItemsThatFail(t *testing.T) {
	type changes []func(*inputs)
	even := func(s *inputs) { s.has("n1", "a", "b"); s.has("n2", "c", "d") }
	says := func(change func(*report)) func(*inputs) {
		return func(s *inputs) { s.says("n1", "a", change) }
	}
	pinned := func(to string) func(*inputs) {
		return func(s *inputs) { s.control.Pins = messages.TableOf(map[string]string{"a": to}) }
	}
	ordered := func(index uint64) func(*inputs) {
		return func(s *inputs) {
			s.control.RestartItems = messages.TableOf(map[string]uint64{"a": index})
		}
	}
	before := func(members ...string) func(*inputs) {
		return func(s *inputs) { s.failed("a", time.Minute, members...) }
	}
	quarantined := func(knew uint64) func(*inputs) { // a has failed at both
		return func(s *inputs) {
			s.has("n1", "b")
			s.has("n2", "c", "d")
			s.failed("a", 25*time.Hour, "n1", "n2")
			s.bar("a", knew)
		}
	}
	made := func(index uint64) func(*inputs) {
		return func(s *inputs) {
			all := s.workload.Map()
			all["a"] = facts.WorkItem{Weight: 1, CreateIndex: index}
			s.workload = messages.TableOf(all)
		}
	}
	joins := func(id string) func(*inputs) { return func(s *inputs) { s.member(id, nil) } }
	lost := func(ago time.Duration) func(*inputs) {
		return func(s *inputs) {
			quarantined(0)(s)
			s.has("n3", "a~")
			s.vanished("n3", ago)
		}
	}
	for name, c := range map[string]struct {
		changes changes
		want    []string
		noted   string // of each note: the members, and a ! if the item is quarantined
	}{
		"it is taken away": {changes{even, says(nil)}, []string{"revoke a n1"},
			"n1"},
		"and given to another member": {changes{func(s *inputs) {
			s.has("n1", "b")
			s.has("n2", "c", "d")
		}, before("n1")}, []string{"grant a n2", "revoke c n2"}, ""},
		"a second member": {changes{even, says(nil), before("n2")}, []string{"revoke a n1"},
			"n2 n1!"},
		"the same member once more": {changes{even, says(nil), before("n1")},
			[]string{"revoke a n1"}, "n1!"},
		"the same member, registered anew": {changes{even, says(nil), before("n1*")},
			[]string{"revoke a n1"}, "n1"},
		"a second one, a day later": {changes{even, says(nil), func(s *inputs) {
			s.failed("a", 24*time.Hour, "n2")
		}}, []string{"revoke a n1"}, "n1"},
		"no other member": {changes{even, says(nil), func(s *inputs) {
			s.control.Drain, s.budget = messages.TableOf(map[string]time.Time{"n2": {}}), 0
		}}, []string{"revoke a n1"}, "n1!"},
		"no other member has room": {changes{even, says(nil), func(s *inputs) {
			s.member("n2", func(m *facts.Member) { m.Capacity = 2 })
		}}, []string{"revoke a n1"}, "n1"},
		"it is pinned":                    {changes{even, says(nil), pinned("n1")}, []string{"revoke a n1"}, "n1!"},
		"it is pinned to who is away":     {changes{even, says(nil), pinned("n9")}, []string{"revoke a n1"}, "n1!"},
		"it is pinned elsewhere since":    {changes{even, says(nil), pinned("n2")}, []string{"revoke a n1"}, "n1"},
		"it is pinned to where it failed": {changes{even, says(nil), pinned("n2"), before("n2")}, []string{"revoke a n1"}, "n2 n1!"},
		"an order came since it failed": {changes{even, says(nil), before("n2"), ordered(41),
			func(s *inputs) { s.has("n1", "b"); s.reissued("n1", "a", 41) }},
			[]string{"revoke a n1"}, "n1"},
		"another session's":                {changes{even, says(func(r *report) { r.session = "another" })}, nil, ""},
		"another start's":                  {changes{even, says(func(r *report) { r.Grant = 19 })}, nil, ""},
		"from before a restart":            {changes{even, says(func(r *report) { r.Again = 3 })}, nil, ""},
		"a restart is ordered":             {changes{even, says(nil), ordered(50)}, []string{"restart a n1"}, ""},
		"frozen":                           {changes{even, says(nil), func(s *inputs) { s.control.Freeze = true }}, nil, ""},
		"quarantined":                      {changes{quarantined(0)}, nil, ""},
		"quarantined, and somebody has it": {changes{even, before("n1", "n2"), func(s *inputs) { s.bar("a", 0) }}, []string{"revoke a n1"}, ""},
		"quarantined, at a lost member":    {changes{lost(time.Minute)}, []string{"erase a n3"}, ""},
		"quarantined, at one in its grace": {changes{lost(time.Second)}, nil, ""},
		"a member of a new id":             {changes{quarantined(0), joins("n3")}, []string{"grant a n3"}, "n1 n2"},
		"a member that comes back":         {changes{quarantined(0), joins("n5")}, []string{"revoke c n2"}, ""},
		"many were there": {changes{quarantined(0), joins("n3"), func(s *inputs) {
			n := s.failures.notes["a"]
			n.Here = nil
			s.failures.notes["a"] = n
		}}, []string{"revoke c n2"}, ""},
		"one of them, registered anew":      {changes{quarantined(0), func(s *inputs) { s.member("n2", func(m *facts.Member) { m.CreateIndex = 41 }) }}, nil, ""},
		"taken out":                         {changes{quarantined(0), ordered(41)}, []string{"forget a"}, ""},
		"an order from before":              {changes{quarantined(0), ordered(39)}, nil, ""},
		"an order its leader did not know":  {changes{quarantined(38), ordered(39)}, []string{"forget a"}, ""},
		"an order its leader knew":          {changes{quarantined(39), ordered(39)}, nil, ""},
		"a leader that claims to know more": {changes{quarantined(60), ordered(41)}, []string{"forget a"}, ""},
		"made anew":                         {changes{quarantined(0), made(41)}, []string{"forget a"}, ""},
		"not made anew":                     {changes{quarantined(0), made(39)}, nil, ""},
		"made anew, and its leader did not know": {changes{quarantined(38), made(39)},
			[]string{"forget a"}, ""},
		"removed": {changes{even, func(s *inputs) {
			s.failed("x", time.Minute, "n1", "n2")
			s.bar("x", 0)
		}}, []string{"forget x"}, ""},
		"removed, before it is quiet": {changes{even, func(s *inputs) {
			s.failed("x", time.Minute, "n1", "n2")
			s.bar("x", 0)
			s.place = false
		}}, nil, ""},
		"it stays where it does not fail, whatever the balance": {changes{func(s *inputs) {
			s.has("n2", "a", "b", "c", "d")
			s.failed("a", time.Minute, "n1")
			s.failed("b", time.Minute, "n1")
		}}, []string{"revoke c n2", "revoke d n2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := inputsOf(t, c.changes...)
			s.control.Index = 47
			p := s.plan()
			if got := p.words(); !slices.Equal(got, c.want) {
				t.Errorf("orders %q; want %q", got, c.want)
			}
			var notes []string
			for _, o := range p.orders {
				if o.note == nil || o.kind == orderForget {
					continue
				}
				text := strings.Join(o.note.Members(), " ")
				if o.note.Since != 0 {
					text += "!"
				}
				if notes = append(notes, text); o.note.Orders != 47 {
					t.Errorf("the note is %+v", *o.note)
				}
			}
			if noted := strings.Join(notes, ", "); noted != c.noted {
				t.Errorf("noted %q; want %q", noted, c.noted)
			}
		})
	}
}

// reissued passes an order to restart on, after which the work has failed again.
func (s *inputs) reissued(member, item string, index uint64) {
	s.assigned.set(member, item, facts.Assignment{Session: "s-" + member, CreateIndex: 20,
		ModifyIndex: index + 1, Restart: index})
	s.failures.reports[member][0].Again = index
}
