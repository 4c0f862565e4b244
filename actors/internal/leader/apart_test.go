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
