//go:build coordd_mutations

package play

import (
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/test/mutations"
)

// Breakage is a rule that is broken on purpose, or two at once with a "+" between them.
type Breakage struct {
	Name    string
	Covered string // by what, when nothing breaks; empty: it must be noticed
}

const (
	uncoveredSeeds = 1500 // are played before a breakage counts as unnoticed
	// and for one that other rules cover: a finder knows more than is known here
	coveredSeeds = 5
)

// Notices wants each breakage to be noticed, unless it is covered; only: that one alone, if not
// empty.
func Notices(t *testing.T, breakages []Breakage, only string, from uint64,
	perform func(*testing.T, uint64) Story) {
	defer mutations.Break("")
	for _, m := range breakages {
		if only != "" && m.Name != only {
			continue
		}
		begin, found := time.Now(), error(nil)
		tries := uint64(uncoveredSeeds)
		if m.Covered != "" {
			tries = coveredSeeds
		}
		mutations.Break(m.Name)
		seed := from
		for ; seed < from+tries && found == nil; seed++ {
			found = perform(t, seed).breach()
		}
		took := time.Since(begin).Round(10 * time.Millisecond)
		switch {
		case found != nil:
			t.Logf("%-28s noticed with seed %d, %v", m.Name, seed-1, took)
			if only != "" {
				t.Log(found)
			}
		case m.Covered != "":
			t.Logf("%-28s not noticed with %d seeds, %v: %s", m.Name, tries, took, m.Covered)
		default:
			t.Errorf("%s: %d seeds have not noticed, %v", m.Name, tries, took)
		}
		if found != nil && strings.Contains(found.Error(), "no verdict") {
			t.Error(found)
		}
	}
}
