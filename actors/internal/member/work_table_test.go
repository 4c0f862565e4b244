package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// Items that come and go, each under an id of its own, leave nothing behind that grows: neither
// what was released, nor what was begun to be released without ever an answer.
func TestItemsThatComeAndGoAreForgotten(t *testing.T) {
	table, now := newWorkTable(), time.Unix(1_000_000, 0)
	s := snapshot{session: facts.Session{ID: "s"}, lease: true, late: 10 * time.Second,
		member: facts.Membership{Phase: facts.Registered, Session: "s", Index: 5}}
	view := func(index uint64, items map[string]facts.Assignment) {
		now = now.Add(5 * time.Second)
		s.now, s.view = now, facts.Assignments{Index: index, Items: messages.TableOf(items)}
	}
	const items = 2000 // one every 10 s, for more than 5 hours
	most := 0
	for i := range items {
		id, index := fmt.Sprint("job_", i), uint64(10+3*i)
		view(index, map[string]facts.Assignment{id: {Releasing: true, Session: "s",
			CreateIndex: index - 1, ModifyIndex: index}})
		if d := table.decide(s); len(d.release) != 1 {
			t.Fatalf("%s: to be released: %q", id, d.release)
		}
		r := release{grant: index - 1} // as it is while there is no answer
		if i%2 == 0 {
			r.index, r.at = index, now
		}
		table.released[id] = r
		view(index+1, nil)
		table.decide(s)
		most = max(most, len(table.released))
	}
	if want := int(releasedFor/(10*time.Second)) + 2; most > want {
		t.Errorf("%d releases are remembered, of %d items that came and went; want at most %d",
			most, items, want)
	}
}
