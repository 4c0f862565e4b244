package onconsul

import (
	"testing"

	"github.com/coordd/coordd/internal/store"
)

// Consul lets a Take past the lock-delay before it applies it: one that was sent while somebody
// leads must not be one that may follow that leader, whose session may be ended in between.
func TestATakeFollowsOnlyALeaderThatWasSeenToHaveGone(t *testing.T) {
	b := newBackend(&Conn{}, "demo")
	w := &watcher{backend: b}
	leads := store.Entry{Key: "leader", CreateIndex: 7, ModifyIndex: 7, Session: "s"}
	for _, step := range []struct {
		snapshot
		want uint64
		why  string
	}{
		{snapshot{term: 5}, 5, "nobody leads"},
		{snapshot{term: 7, leader: leads}, 5, "somebody leads under term 7"},
		{snapshot{term: 7}, 7, "that one has gone"},
	} {
		if w.accept(step.snapshot, 0); b.candidacy().term != step.want {
			t.Errorf("%s, and a Take would follow term %d, want %d", step.why, b.candidacy().term,
				step.want)
		}
	}
}
