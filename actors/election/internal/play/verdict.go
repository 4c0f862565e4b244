package play

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election/electiontest"
)

// Length is how long candidates come and go in a history.
const Length = 5 * time.Minute

// Story is what became of one history.
type Story struct {
	Judge *electiontest.Judge
	Did   map[string]int
	Wrong []string // what the judge does not look for
}

// IsARegister plays seeds, and wants nothing to be wrong with any of them.
func IsARegister(t *testing.T, from, seeds uint64, perform func(*testing.T, uint64) Story) {
	did, counted := map[string]int{}, map[string]int{}
	begin := time.Now()
	for seed := from; seed < from+seeds; seed++ {
		story := perform(t, seed)
		if err := story.breach(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for name, n := range story.Did {
			did[name] += n
		}
		for what, n := range story.Judge.Counted() {
			counted[what] += n
		}
	}
	t.Logf("%v for %d histories: %v", time.Since(begin), seeds, counted)
	t.Log(did)
	for _, what := range []string{"take", "take of unknown outcome", "release", "leave",
		"leave of unknown outcome", "work", "look"} {
		if counted[what] == 0 && seeds >= 10 {
			t.Errorf("there was no %s", what)
		}
	}
}

// breach is what is wrong with a history; nil: nothing.
func (s Story) breach() error {
	if err := s.Judge.Verdict(time.Minute); err != nil || len(s.Wrong) == 0 {
		return err
	}
	return errors.New(strings.Join(s.Wrong, "; "))
}
