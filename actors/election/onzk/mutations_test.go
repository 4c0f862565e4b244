//go:build coordd_mutations

package onzk_test

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/mutations"
)

var flagMutation = flag.String("mutation", "", "the only rule to break")

// breakages are the rules that are broken on purpose.
var breakages = []struct {
	name    string
	covered string // by what, when nothing breaks; empty: it must be noticed
}{
	{name: "no-lease"},
	{name: "lease-unconfirmed"},
	{name: "leave-before-stop"},
	{name: "release-before-stop"},
	{name: "lock-delay-not-waited-for"},
	{name: "departed-in-any-term"},
	{name: "closed-while-led"},

	{name: "no-margin", covered: "the session, which lasts longer than the lease: ZooKeeper " +
		"hears of it later than that counts from"},
	{name: "take-unchecked", covered: "the session of each connection (1 history in 1,500)"},
	{name: "released-in-any-term", covered: "the candidate's node, which goes with the release"},
}

const (
	uncoveredSeeds = 1500 // are played before a breakage counts as unnoticed
	// and for one that other rules cover: whoever finds one knows more than is known here
	coveredSeeds = 5
)

func TestTheJudgeNoticesBrokenRules(t *testing.T) {
	defer mutations.Break("")
	for _, m := range breakages {
		if *flagMutation != "" && m.name != *flagMutation {
			continue
		}
		begin, found := time.Now(), error(nil)
		tries := uint64(uncoveredSeeds)
		if m.covered != "" {
			tries = coveredSeeds
		}
		mutations.Break(m.name)
		seed := *flagFrom
		for ; seed < *flagFrom+tries && found == nil; seed++ {
			judge, _, wrong := perform(t, seed, 5*time.Minute)
			if found = judge.Verdict(time.Minute); found == nil && len(wrong) > 0 {
				found = errors.New(strings.Join(wrong, "; "))
			}
		}
		took := time.Since(begin).Round(10 * time.Millisecond)
		switch {
		case found != nil:
			t.Logf("%-28s noticed with seed %d, %v", m.name, seed-1, took)
			if *flagMutation != "" {
				t.Log(found)
			}
		case m.covered != "":
			t.Logf("%-28s not noticed with %d seeds, %v: %s", m.name, tries, took, m.covered)
		default:
			t.Errorf("%s: %d seeds have not noticed, %v", m.name, tries, took)
		}
		if found != nil && strings.Contains(found.Error(), "no verdict") {
			t.Error(found)
		}
	}
}
