package leader

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// An order that is refused for good is sent alone, and when it is refused alone it is skipped; one
// whose conditions do not hold comes to that after three times in a row. All others go on.
func TestARefusedOrderIsSentAloneAndThenSkipped(t *testing.T) {
	keys, err := protocol.KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	grant := func(item, session string) order {
		return order{kind: orderGrant, item: item, to: "n1", session: session}
	}
	type try struct {
		sent    int
		forGood bool
	}
	for name, c := range map[string]struct {
		tries []try
		again string // session of the grant that is ordered then
		want  string // whether that goes with others, alone or not at all
	}{
		"nothing":                     {nil, "s", "batch"},
		"denied with others":          {[]try{{5, true}}, "s", "alone"},
		"denied with others and then": {[]try{{5, true}, {1, true}}, "s", "skipped"},
		"denied alone":                {[]try{{1, true}}, "s", "skipped"},
		"outdated":                    {[]try{{5, false}, {1, false}}, "s", "batch"},
		"outdated again and again":    {[]try{{5, false}, {5, false}, {5, false}}, "s", "alone"},
		"and then alone": {[]try{{5, false}, {5, false}, {5, false}, {1, false}}, "s",
			"skipped"},
		"under another session": {[]try{{1, true}}, "t", "batch"},
	} {
		r, now := refusals{}, time.Now()
		o := grant("a", "s")
		for _, x := range c.tries {
			r.refused(&o, o.about(keys), store.ErrDenied, x.sent, x.forGood)
		}
		batch, alone, retry := r.sendable([]order{grant("a", c.again), grant("b", "s")}, keys, now)
		got := map[string]string{"2 0": "batch", "1 1": "alone",
			"1 0": "skipped"}[fmt.Sprint(len(batch), len(alone))]
		if got != c.want || (got == "skipped") != (!retry.IsZero()) {
			t.Errorf("%s: %s, again %v", name, got, retry)
		}
		if named := r.named(now); (len(named) > 0) != (c.want == "skipped" || c.again == "t" &&
			len(named) > 0) {
			t.Errorf("%s: named are %v", name, named)
		}
		later := now.Add(skipPause + time.Second)
		if batch, alone, _ := r.sendable([]order{o}, keys, later); len(batch)+len(alone) != 1 {
			t.Errorf("%s: it is not tried again", name)
		}
		if r.sendable(nil, keys, later.Add(skipPause)); len(r) > 0 {
			t.Errorf("%s: nobody orders it, and it is remembered", name)
		}
	}
}

func TestTheLeaderStateIsWrittenWhenThereIsSomethingNewToIt(t *testing.T) {
	const ttl, life = 10 * time.Second, time.Minute
	away := map[string]protocol.Waited{"n1": {Ack: 1, Session: "s", For: ttl}}
	longer := map[string]protocol.Waited{"n1": {Ack: 1, Session: "s", For: 2 * ttl}}
	for name, c := range map[string]struct {
		was, next protocol.LeaderState
		age       time.Duration
		exact     bool
		want      bool
		again     time.Duration // after the note
	}{
		"nothing":             {},
		"nothing, as it ends": {exact: true},
		"an absence": {next: protocol.LeaderState{Absent: away}, age: ttl, want: true,
			again: ttl + noteSoon},
		"as it was": {was: protocol.LeaderState{Absent: away},
			next: protocol.LeaderState{Absent: away}, age: ttl, again: life / noteStep},
		"as it was, and old": {was: protocol.LeaderState{Absent: away},
			next: protocol.LeaderState{Absent: away}, age: life / noteStep, want: true,
			again: life/noteStep + ttl/noteStep},
		"as it was, as it ends": {was: protocol.LeaderState{Absent: away},
			next: protocol.LeaderState{Absent: away}, exact: true, want: true},
		"it lasts": {was: protocol.LeaderState{Absent: away},
			next: protocol.LeaderState{Absent: longer}, age: ttl, want: true,
			again: ttl + ttl/noteStep},
		"it lasts, written just now": {was: protocol.LeaderState{Absent: away},
			next: protocol.LeaderState{Absent: longer}, age: time.Millisecond, again: noteSoon},
		"it has lasted for a second": {was: protocol.LeaderState{Absent: away},
			next: protocol.LeaderState{Absent: longer}, age: time.Second, want: true,
			again: time.Second * 5 / 4},
		"a brake, just now": {next: protocol.LeaderState{Brake: "gone"}, age: time.Millisecond,
			want: true},
		"another leader's brake": {was: protocol.LeaderState{Brake: "gone", By: "a"},
			next: protocol.LeaderState{Brake: "gone", By: "b"}, age: ttl, want: true},
		"a refused order": {next: protocol.LeaderState{Refused: map[string]string{"k": "why"}},
			age: ttl, want: true},
	} {
		n := noted{state: c.was, at: draftedAt, begun: draftedAt}
		n.state.At, c.next.At, c.next.Life = draftedAt, draftedAt.Add(c.age), life
		write, again := n.due(c.next, ttl, c.exact)
		want := time.Time{}
		if c.again > 0 {
			want = draftedAt.Add(c.again)
		}
		if write != c.want || !again.Equal(want) {
			t.Errorf("%s: write %v, again %v; want %v, %v", name, write, again, c.want, want)
		}
	}
}
