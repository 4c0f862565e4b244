package main

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/election"
)

// In an election that has ended, or is being deleted, nobody waits to lead, and its leader may not
// have stopped yet: who that is cannot be told of it any more.
func TestNobodyWaitsInAnElectionThatIsOver(t *testing.T) {
	for state, want := range map[string]string{"open": "waits", "ended": "leaves",
		"deleted": "leaves"} {
		var out strings.Builder
		if err := printElection(&out, electView{Election: "e", State: state,
			Candidates: []election.Candidate{{ID: "1", Name: "n1"}}}); err != nil {
			t.Fatal(err)
		}
		if rows := strings.Split(strings.TrimSpace(out.String()), "\n"); !strings.Contains(
			rows[len(rows)-1], want) {
			t.Errorf("of an election that is %s it is said\n%s", state, out.String())
		}
	}
}
