package leader

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// failed notes that the work of an item has failed at members so long ago; one with an asterisk was
// registered anew since.
func (s *snapshot) failed(item string, ago time.Duration, members ...string) {
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
	if s.notes == nil {
		s.notes = map[string]note{}
	}
	s.notes[item] = n
}

// bar quarantines an item whose work has failed.
func (s *snapshot) bar(item string, why ...string) {
	n := s.notes[item]
	n.Why = strings.Join(why, "")
	n.Since = s.now.UnixMilli()
	s.notes[item] = n
}

// fails has a member say that the work of an item fails too often.
func (s *snapshot) says(member, item string, change func(*report)) {
	r := report{session: "s-" + member, WorkReport: protocol.WorkReport{ID: item, Token: 20}}
	if change != nil {
		change(&r)
	}
	s.failing = map[string][]report{member: {r}}
}

func TestADraftOfItemsThatFail(t *testing.T) {
	even := func(s *snapshot) { s.has("n1", "a", "b"); s.has("n2", "c", "d") }
	says := func(change func(*report)) func(*snapshot) {
		return func(s *snapshot) { s.says("n1", "a", change) }
	}
	bToo := func(s *snapshot) {
		r := s.failing["n1"][0]
		r.ID = "b"
		s.failing["n1"] = append(s.failing["n1"], r)
	}
	ordered := func(items map[string]uint64) func(*snapshot) {
		return func(s *snapshot) { s.control.RestartItems = messages.TableOf(items) }
	}
	quarantined := func(ago time.Duration, second string) func(*snapshot) {
		return func(s *snapshot) {
			s.has("n1", "b")
			s.has("n2", "c", "d")
			s.failed("a", ago, "n1", second)
			s.bar("a")
		}
	}
	knowing := func(orders uint64) func(*snapshot) {
		return func(s *snapshot) {
			n := s.notes["a"]
			n.Orders, n.Made = orders, orders
			s.notes["a"] = n
		}
	}
	anew := func(index uint64) func(*snapshot) {
		return func(s *snapshot) {
			all := map[string]messages.WorkItem{}
			for id, w := range s.workload.All() {
				if id == "a" {
					w.CreateIndex = index
				}
				all[id] = w
			}
			s.workload = messages.TableOf(all)
		}
	}
	nowhere := func(s *snapshot) {
		s.has("n1", "b")
		s.has("n2", "c", "d")
		s.failed("a", time.Minute, "n1")
		s.bar("a", protocol.QuarantineNowhere)
	}
	hostOf := func(member string, ago time.Duration) func(*snapshot) {
		return func(s *snapshot) {
			n := s.notes["a"]
			n.Failed = append(n.Failed, protocol.FailedOwner{Member: member, Hosts: true,
				Session: "s-" + member, At: s.now.Add(-ago).UnixMilli()})
			s.notes["a"] = n
		}
	}
	lost := func(ago time.Duration) func(*snapshot) {
		return func(s *snapshot) {
			quarantined(time.Minute, "n3")(s)
			s.has("n3", "a~")
			s.vanished("n3", ago)
		}
	}
	for name, c := range map[string]struct {
		changes []func(*snapshot)
		want    []string
		noted   string // of each: the members, and why it is quarantined
	}{
		"it is taken away": {[]func(*snapshot){even, says(nil)},
			[]string{"revoke a n1", "revoke c n2"}, "n1"},
		"and given to another member": {[]func(*snapshot){func(s *snapshot) {
			s.has("n1", "b")
			s.has("n2", "c", "d")
			s.failed("a", time.Minute, "n1")
		}}, []string{"grant a n2", "revoke c n2"}, ""},
		"a second member": {[]func(*snapshot){even, says(nil), func(s *snapshot) {
			s.failed("a", time.Minute, "n2")
		}}, []string{"revoke a n1"}, "n2 n1 owners"},
		"the same member, registered anew": {[]func(*snapshot){even, says(nil),
			func(s *snapshot) { s.failed("a", time.Minute, "n1*") }}, []string{"revoke a n1",
			"revoke c n2"}, "n1"},
		"a second one, a day later": {[]func(*snapshot){even, says(nil), func(s *snapshot) {
			s.failed("a", 24*time.Hour, "n2")
		}}, []string{"revoke a n1", "revoke c n2"}, "n1"},
		"no other member": {[]func(*snapshot){even, says(nil), func(s *snapshot) {
			s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
		}}, []string{"revoke a n1"}, "n1 nowhere"},
		"it is pinned": {[]func(*snapshot){even, says(nil), func(s *snapshot) {
			s.control.Pins = messages.TableOf(map[string]string{"a": "n1"})
		}}, []string{"revoke a n1"}, "n1 nowhere"},
		"it is pinned elsewhere since": {[]func(*snapshot){even, says(nil), func(s *snapshot) {
			s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
		}}, []string{"revoke a n1", "revoke c n2"}, "n1"},
		"it is pinned to who makes room for it": {[]func(*snapshot){even, says(nil),
			func(s *snapshot) {
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
				s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
			}}, []string{"revoke a n1", "revoke c n2"}, "n1"},
		"it is pinned to who has no room for it": {[]func(*snapshot){even, says(nil),
			func(s *snapshot) {
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2", "c": "n2",
					"d": "n2"})
				s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
			}}, []string{"revoke a n1"}, "n1 nowhere"},
		"it is pinned to who takes nothing": {[]func(*snapshot){even, says(nil),
			func(s *snapshot) {
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
				s.control.Drain = messages.TableOf(map[string]time.Time{"n2": {}})
				s.budget = 0
			}}, []string{"revoke a n1"}, "n1 nowhere"},
		"it is pinned to who is away": {[]func(*snapshot){even, says(nil), func(s *snapshot) {
			s.control.Pins = messages.TableOf(map[string]string{"a": "n9"})
		}}, []string{"revoke a n1"}, "n1 nowhere"},
		"it is pinned elsewhere since, and b fails as well": {[]func(*snapshot){even, says(nil),
			bToo, func(s *snapshot) {
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
				s.member("n2", func(m *messages.Member) { m.Capacity = 4 })
			}}, []string{"revoke a n1", "revoke b n1", "revoke c n2", "revoke d n2"}, "n1, n1"},
		"b, which has failed there, is pinned elsewhere": {[]func(*snapshot){even, says(nil),
			func(s *snapshot) {
				bToo(s)
				s.failing["n1"] = append(s.failing["n1"][1:], s.failing["n1"][0])
				s.control.Pins = messages.TableOf(map[string]string{"b": "n2"})
				s.failed("b", time.Minute, "n2")
				s.member("n2", func(m *messages.Member) { m.Capacity = 3 })
			}}, []string{"revoke a n1", "revoke b n1", "revoke c n2"}, "n1, n2 n1 owners"},
		"it is to go to who has just room for it": {[]func(*snapshot){even, says(nil),
			func(s *snapshot) {
				s.control.Preferred = messages.TableOf(map[string]string{"a": "n2"})
				s.member("n2", func(m *messages.Member) { m.Capacity = 3 })
			}}, []string{"revoke a n1", "revoke c n2"}, "n1"},
		"it is pinned elsewhere, and has failed there": {[]func(*snapshot){even, says(nil),
			func(s *snapshot) {
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
				s.failed("a", time.Minute, "n2")
			}}, []string{"revoke a n1"}, "n2 n1 owners"},
		"an order came since it failed elsewhere": {[]func(*snapshot){even, says(nil),
			func(s *snapshot) { s.failed("a", time.Minute, "n2") }, knowing(15),
			ordered(map[string]uint64{"a": 18})}, []string{"revoke a n1", "revoke c n2"}, "n1"},
		"another session's": {[]func(*snapshot){even, says(func(r *report) {
			r.session = "another"
		})}, nil, ""},
		"another start's": {[]func(*snapshot){even, says(func(r *report) { r.Token = 19 })}, nil,
			""},
		"from before a restart": {[]func(*snapshot){even, says(func(r *report) { r.Again = 3 })},
			nil, ""},
		"a restart is ordered": {[]func(*snapshot){even, says(nil),
			ordered(map[string]uint64{"a": 50})}, []string{"restart a n1"}, ""},
		"frozen": {[]func(*snapshot){even, says(nil), func(s *snapshot) {
			s.control.Freeze = true
		}}, nil, ""},
		"quarantined": {[]func(*snapshot){quarantined(25*time.Hour, "n2")}, nil, ""},
		"quarantined, and an older leader gave it away": {[]func(*snapshot){even,
			func(s *snapshot) {
				s.failed("a", time.Minute, "n1", "n2")
				s.bar("a")
			}}, []string{"revoke a n1"}, ""},
		"quarantined, at a lost member": {[]func(*snapshot){lost(time.Minute)},
			[]string{"erase a n3"}, ""},
		"quarantined, at a lost member in its grace": {[]func(*snapshot){lost(time.Second)}, nil,
			""},
		"taken out": {[]func(*snapshot){quarantined(time.Minute, "n2"),
			ordered(map[string]uint64{"a": 41})}, []string{"forget a"}, ""},
		"an order from before": {[]func(*snapshot){quarantined(time.Minute, "n2"),
			ordered(map[string]uint64{"a": 39})}, nil, ""},
		"an order that its leader did not know of yet": {[]func(*snapshot){
			quarantined(time.Minute, "n2"), knowing(38), ordered(map[string]uint64{"a": 39})},
			[]string{"forget a"}, ""},
		"an order that its leader knew of": {[]func(*snapshot){quarantined(time.Minute, "n2"),
			knowing(39), ordered(map[string]uint64{"a": 39})}, nil, ""},
		"a leader that claims to know what came later": {[]func(*snapshot){
			quarantined(time.Minute, "n2"), knowing(60), ordered(map[string]uint64{"a": 41})},
			[]string{"forget a"}, ""},
		"made anew": {[]func(*snapshot){quarantined(time.Minute, "n2"), anew(41)},
			[]string{"forget a"}, ""},
		"not made anew": {[]func(*snapshot){quarantined(time.Minute, "n2"), anew(39)}, nil, ""},
		"made anew, and its leader did not know of that yet": {[]func(*snapshot){
			quarantined(time.Minute, "n2"), knowing(38), anew(39)}, []string{"forget a"}, ""},
		"as its leader knew it": {[]func(*snapshot){quarantined(time.Minute, "n2"), knowing(39),
			anew(39)}, nil, ""},
		"made anew as it failed": {[]func(*snapshot){even, says(nil), anew(25)},
			[]string{"restart a n1"}, ""},
		"made anew since it failed elsewhere": {[]func(*snapshot){even, says(func(r *report) {
			r.Again = 41
		}), func(s *snapshot) {
			s.failed("a", time.Minute, "n2")
			s.assigned.set("n1", "a", messages.Assignment{Session: "s-n1", CreateIndex: 20,
				ModifyIndex: 42, Restart: 41})
		}, anew(41)}, []string{"revoke a n1", "revoke c n2"}, "n1"},
		"removed": {[]func(*snapshot){even, func(s *snapshot) {
			s.failed("x", time.Minute, "n1", "n2")
			s.bar("x")
		}}, []string{"forget x"}, ""},
		"removed, before it is quiet": {[]func(*snapshot){even, func(s *snapshot) {
			s.failed("x", time.Minute, "n1", "n2")
			s.bar("x")
			s.place = false
		}}, nil, ""},
		"quarantined, and another member takes it": {[]func(*snapshot){nowhere},
			[]string{"grant a n2"}, ""},
		"quarantined, and nobody has room": {[]func(*snapshot){nowhere, func(s *snapshot) {
			s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
		}}, nil, ""},
		"quarantined, and its member was registered anew": {[]func(*snapshot){nowhere,
			func(s *snapshot) {
				s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
				s.failed("a", time.Minute, "n1*")
				s.bar("a", protocol.QuarantineNowhere)
			}}, nil, ""},
		"quarantined, and pinned to who takes it": {[]func(*snapshot){nowhere,
			func(s *snapshot) { s.control.Pins = messages.TableOf(map[string]string{"a": "n2"}) },
		}, []string{"grant a n2"}, ""},
		"quarantined, and pinned to who is away": {[]func(*snapshot){nowhere,
			func(s *snapshot) { s.control.Pins = messages.TableOf(map[string]string{"a": "n9"}) },
		}, nil, ""},
		"quarantined, and pinned where it fails": {[]func(*snapshot){nowhere,
			func(s *snapshot) { s.control.Pins = messages.TableOf(map[string]string{"a": "n1"}) },
		}, nil, ""},
		"quarantined, before it is quiet": {[]func(*snapshot){nowhere,
			func(s *snapshot) { s.place = false }}, nil, ""},
		"quarantined, and pinned to who makes room": {[]func(*snapshot){nowhere,
			func(s *snapshot) {
				s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
			}}, []string{"grant a n2"}, ""},
		"quarantined, and pinned to who has others by a wish": {[]func(*snapshot){nowhere,
			func(s *snapshot) {
				s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
				s.control.Preferred = messages.TableOf(map[string]string{"c": "n2", "d": "n2"})
			}}, []string{"grant a n2"}, ""},
		"quarantined, and pinned to who has what failed elsewhere": {[]func(*snapshot){nowhere,
			func(s *snapshot) {
				s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2"})
				s.failed("c", time.Minute, "n1")
				s.failed("d", time.Minute, "n1")
			}}, []string{"grant a n2"}, ""},
		"quarantined, and pinned to who has no room": {[]func(*snapshot){nowhere,
			func(s *snapshot) {
				s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
				s.control.Pins = messages.TableOf(map[string]string{"a": "n2", "c": "n2",
					"d": "n2"})
			}}, nil, ""},
		"quarantined, and what is placed now has the room": {[]func(*snapshot){nowhere,
			func(s *snapshot) {
				s.work("a", "b", "c", "d", "e")
				s.member("n1", func(m *messages.Member) { m.Capacity = 1 })
				s.member("n2", func(m *messages.Member) { m.Capacity = 3 })
			}}, []string{"grant e n2"}, ""},
		"quarantined, and another host was to blame": {[]func(*snapshot){nowhere,
			hostOf("n2", protocol.HostFor-time.Second)}, nil, ""},
		"quarantined, and another host was to blame long ago": {[]func(*snapshot){nowhere,
			hostOf("n2", protocol.HostFor)}, []string{"grant a n2"}, ""},
		"it stays where it does not fail, whatever the balance": {[]func(*snapshot){
			func(s *snapshot) {
				s.has("n2", "a", "b", "c", "d")
				for _, item := range []string{"a", "b"} {
					s.failed(item, time.Minute, "n1")
				}
			}}, []string{"revoke c n2", "revoke d n2"}, ""},
		"nothing more goes to where three have failed": {[]func(*snapshot){func(s *snapshot) {
			s.has("n2", "a", "b", "c", "d")
			for _, item := range []string{"a", "b", "c"} {
				s.failed(item, time.Minute, "n1")
			}
		}}, nil, ""},
		"nor while something has no place at all": {[]func(*snapshot){func(s *snapshot) {
			s.work("a", "b", "c", "d", "p")
			s.has("n2", "a", "b", "c", "d")
			for _, item := range []string{"a", "b", "c"} {
				s.failed(item, time.Minute, "n1")
			}
			s.control.Pins = messages.TableOf(map[string]string{"p": "n9"})
		}}, nil, ""},
		"nor to try there what has failed elsewhere": {[]func(*snapshot){func(s *snapshot) {
			s.work("a", "b", "c", "d", "e")
			s.member("n3", nil)
			s.has("n2", "a", "b")
			s.has("n3", "c", "e")
			for _, item := range []string{"a", "b", "c"} {
				s.failed(item, time.Minute, "n1")
			}
			s.failed("d", time.Minute, "n2")
		}}, []string{"grant d n3"}, ""},
		"but for what has no other place": {[]func(*snapshot){func(s *snapshot) {
			s.has("n2", "a", "b", "c")
			s.member("n2", func(m *messages.Member) { m.Capacity = 3 })
			for _, item := range []string{"a", "b", "c"} {
				s.failed(item, time.Minute, "n1")
			}
		}}, []string{"grant d n1"}, ""},
		"nor from where they run, when all are sick": {[]func(*snapshot){func(s *snapshot) {
			s.has("n1", "a", "b", "c", "d")
			for _, item := range []string{"a", "b", "c"} {
				s.failed(item, time.Minute, "n1")
			}
			s.control.Drain = messages.TableOf(map[string]time.Time{"n2": {}})
		}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshotOf(t, c.changes...)
			s.control.Index = 47
			d := s.draft()
			if got := d.orders(); !slices.Equal(got, c.want) {
				t.Errorf("orders %q; want %q", got, c.want)
			}
			var notes []string
			for _, u := range d.units {
				if o := u.Tag.(order); o.kind == orderRevoke && o.note != nil {
					notes = append(notes, strings.TrimSpace(strings.Join(o.note.Members(),
						" ")+" "+o.note.Why))
					if (o.note.Since != 0) != (o.note.Why != "") || o.note.Orders != 47 {
						t.Errorf("the note is %+v", *o.note)
					}
				}
			}
			if noted := strings.Join(notes, ", "); noted != c.noted {
				t.Errorf("noted %q; want %q", noted, c.noted)
			}
		})
	}
}

// What no other member took is looked at again when changes have come to rest, and when a host that
// was to blame is so no more, though nothing else happens then.
func TestWhatNoOtherMemberTookIsLookedAtAgain(t *testing.T) {
	nowhere := func(s *snapshot) {
		s.has("n1", "b")
		s.has("n2", "c", "d")
		s.failed("a", time.Minute, "n1")
		s.bar("a", protocol.QuarantineNowhere)
	}
	s := snapshotOf(t, nowhere, func(s *snapshot) { s.place = false })
	if d := s.draft(); !d.waiting || len(d.units) > 0 {
		t.Errorf("before it is quiet it waits %v, and orders %q", d.waiting, d.orders())
	}
	s = snapshotOf(t, nowhere, func(s *snapshot) {
		s.place = false
		s.member("n2", func(m *messages.Member) { m.Capacity = 2 })
	})
	if d := s.draft(); d.waiting {
		t.Error("it waits, and nobody takes the item")
	}
	s = snapshotOf(t, nowhere, func(s *snapshot) {
		n := s.notes["a"]
		n.Failed = append(n.Failed, protocol.FailedOwner{Member: "n2", Session: "s-n2",
			Hosts: true, At: s.now.Add(-time.Minute).UnixMilli()})
		s.notes["a"] = n
	})
	want := s.now.Add(protocol.HostFor - time.Minute)
	if d := s.draft(); !d.later.Equal(want) || len(d.units) > 0 {
		t.Errorf("it is looked at again at %v; want %v", d.later, want)
	}
}

func TestLoadsAndLimitsOfMembersWhereMuchHasFailed(t *testing.T) {
	s := snapshotOf(t, func(s *snapshot) {
		s.has("n1", "a")
		s.has("n2", "b", "c", "d")
		for _, item := range []string{"b", "c", "d"} {
			s.failed(item, time.Minute, "n1")
		}
	})
	sorted := s.sort(&draft{})
	if got := s.limited(sorted); len(got) != 2 || got[0] != (placement.Member{ID: "n1",
		Capacity: 1}) || got[1] != (placement.Member{ID: "n2"}) {
		t.Errorf("limited are %+v", got)
	}
	if sorted.members[0].Capacity != 0 {
		t.Error("the members themselves were changed")
	}
	s.failed("b", time.Minute, "n1*")
	if got := s.limited(s.sort(&draft{})); got != nil {
		t.Errorf("two failures limit %+v", got)
	}
}
