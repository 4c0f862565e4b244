package leader

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/messages"
)

// What one draft has made for its orders is of no use to the next: members come back under other
// sessions, and each change that is told has a value of its own.
func TestALeaderKeepsNothingOfTheOrdersThatItHasWritten(t *testing.T) {
	s := snapshotOf(t, func(s *snapshot) {
		s.has("n1", "a", "b")
		s.has("n2", "c")
		s.member("n1", func(m *messages.Member) { m.TellChanges = true })
	})
	for i := range uint64(1000) {
		s.workload = messages.TableOf(map[string]messages.WorkItem{
			"a": {Weight: 1, ModifyIndex: 40 + i}, "b": {Weight: 1}, "c": {Weight: 1},
			"d": {Weight: 1, ModifyIndex: 40 + i}})
		s.member("n2", func(m *messages.Member) { m.Session = fmt.Sprint("session-", i) })
		kinds := map[orderKind]bool{}
		for _, u := range s.draft().units {
			kinds[u.Tag.(order).kind] = true
		}
		if !kinds[orderTell] || !kinds[orderGrant] {
			t.Fatalf("draft %d tells of no change, or grants nothing: %v", i, kinds)
		}
	}
	if n := max(len(s.build.values), len(s.build.locked)); n > 4 {
		t.Errorf("after 1000 drafts of a few orders it keeps %d values", n)
	}
}
