package leader

import (
	"log/slog"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// The leader may hear late that a member was started anew. Until then it grants items under the
// member's old session, in vain. A grant under the new session does not wait for that.
func TestAnOrderUnderANewSessionDoesNotWaitForThoseUnderTheOldOne(t *testing.T) {
	keys, err := protocol.KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	a := &Assigner{Base: &actor.Base{Keys: keys, Log: log}, apart: map[string]*apart{},
		ladder: store.NewLadder(), odd: protocol.StrangeKeys{Log: log}}
	grant := func(session string) store.Unit {
		return store.Unit{Tag: order{kind: orderGrant, item: "a", to: "n1", session: session}}
	}
	sent := func(session string, now time.Time) int {
		rest, groups, _ := a.possible([]store.Unit{grant(session)}, now)
		return len(rest) + len(groups)
	}
	now := time.Now()
	for range 20 {
		a.outdated(grant("old").Tag.(order), store.ErrRefused, now.Add(-time.Second), 1)
	}
	if n := sent("old", now); n != 0 {
		t.Errorf("%d orders under the old session are sent at once", n)
	}
	if n := sent("new", now); n != 1 {
		t.Errorf("%d orders under the new session are sent at once", n)
	}
}

// What is denied hinders a leader where it is no matter of one item or of one member, for as long
// as it is ordered and no assignment is written.
func TestDeniedAssignmentsOfSeveralItemsAtSeveralMembersHinderALeader(t *testing.T) {
	keys, err := protocol.KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	grant := func(item, to string) order { return order{kind: orderGrant, item: item, to: to} }
	two := []order{grant("a", "n1"), grant("b", "n2")}
	for name, c := range map[string]struct {
		denied  []order
		written []order
		ordered []order // nil: what was denied
		want    bool
	}{
		"nothing":               {},
		"two at two":            {denied: two, want: true},
		"two at one":            {denied: []order{grant("a", "n1"), grant("b", "n1")}},
		"one at two":            {denied: []order{grant("a", "n1"), grant("a", "n2")}},
		"of which one is void":  {denied: two, ordered: two[:1]},
		"of which none is left": {denied: two, ordered: []order{grant("c", "n3")}},
		"and a third written":   {denied: two, written: []order{grant("c", "n3")}},
		"and a sweep": {denied: two, written: []order{{kind: orderSweep, from: "n3"}},
			want: true},
		"revoked": {denied: []order{{kind: orderRevoke, item: "a", from: "n1"},
			{kind: orderRevoke, item: "b", from: "n2"}}, want: true},
		"taken over from one": {denied: []order{{kind: orderReap, item: "a", from: "n3", to: "n1"},
			{kind: orderReap, item: "b", from: "n3", to: "n2"}}, want: true},
		"with notes": {denied: []order{two[0],
			{kind: orderRevoke, item: "b", from: "n2", note: &protocol.Quarantine{}}}},
		"one and a sweep": {denied: []order{two[0], {kind: orderSweep, from: "n2"}}},
		"one and a note":  {denied: []order{two[0], {kind: orderForget, item: "b"}}},
	} {
		log := slog.New(slog.DiscardHandler)
		a := &Assigner{Base: &actor.Base{Keys: keys, Log: log, Hindered: &actor.Hindrances{}},
			apart: map[string]*apart{}, odd: protocol.StrangeKeys{Log: log}, term: 1,
			// neither the event log nor a summary is to blame
			events: &eventLog{off: true}, build: &unitBuilder{kept: map[string]bool{"n2": true}}}
		for _, o := range c.denied {
			a.refused(o, store.ErrDenied, 1)
		}
		for _, o := range c.written {
			a.wrote(o)
		}
		ordered := c.ordered
		if ordered == nil {
			ordered = c.denied
		}
		var units []store.Unit
		for _, o := range ordered {
			units = append(units, store.Unit{Tag: o})
		}
		a.tellDenied(units)
		if what, _ := a.Hindered.Longest(1); (what != "") != c.want {
			t.Errorf("%s: hindered by %q", name, what)
		}
	}
}
