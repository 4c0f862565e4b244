//go:build coordd_elections

package onzk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
)

// A candidate that died while it waited is in nobody's way once its departure was said.
func TestADeadCandidateThatHasDepartedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := begin(t, crowdTimeout)
	a, _ := nominate(t, s.connect(t, &wire{}), "a")
	wait(t, a, election.Leading)
	w := &wire{}
	dead := s.connect(t, w)
	b, _ := nominate(t, dead, "b")
	wait(t, b, election.Following)
	c, _ := nominate(t, s.connect(t, &wire{}), "c")
	wait(t, c, election.Following)
	session, _ := dead.Credentials()
	w.Cut()
	t.Cleanup(w.Mend)
	if led, err := onzk.Depart(t.Context(), s.config(&wire{}), "demo",
		fmt.Sprintf("0x%x", uint64(session))); led || err != nil {
		t.Errorf("the departure of one that waited: %v, %v", led, err)
	}
	a.Resign()
	wait(t, c, election.Leading)
	answer, err := s.server.Ask(t.Context(), "dump")
	if err != nil || !strings.Contains(answer, fmt.Sprintf("0x%x", uint64(session))) {
		t.Errorf("c leads when the dead one's session is over (%v):\n%s", err, answer)
	}
}
