//go:build coordd_mutations

package onconsul_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/mutations"
)

var flagMutation = flag.String("mutation", "", "the only rule to break")

// breakages are the rules that are broken on purpose, two at once with a "+" between them.
var breakages = []struct {
	name    string
	covered string // by what, when nothing breaks; empty: it must be noticed
}{
	{name: "no-lease"},
	{name: "no-margin"},
	{name: "lease-from-reply"},
	{name: "begun-unchecked"},
	{name: "leave-before-stop"},
	{name: "release-before-stop"},
	{name: "left-for-another"},
	{name: "take-unchecked"},
	{name: "term-unchecked"},
	{name: "taken-while-held+term-unchecked"},
	{name: "lock-delay-not-in-term"},
	{name: "lock-delay-not-waited-for"},
	{name: "lock-delay-below-lease"},
	{name: "released-unchecked+released-in-any-term"},
	{name: "deleted-at-once"},
	{name: "deleted-while-led+deleted-at-once"},
	{name: "closed-before-drained"},

	{name: "taken-while-held", covered: "the term, which nobody has seen free who sees a leader"},
	{name: "closed-while-led", covered: "the lock-delay, for which all wait when a session ends"},
	{name: "released-unchecked", covered: "the term, which the next leader has changed"},
	{name: "released-in-any-term", covered: "the check of the leader's key, which is another one"},
	{name: "deleted-while-led",
		covered: "the wait for the lock-delay: by then the leader has heard of the end, or its " +
			"lease is over"},
}

const (
	uncoveredSeeds = 1500 // are played before a breakage counts as unnoticed
	// and for one that other rules cover: whoever finds one knows more than is known here
	coveredSeeds = 5
)

// What the judge does not look for, and another test finds: priorities, and what strangers write.
func TestBrokenRulesOfAHandOverAreNoticed(t *testing.T) {
	defer mutations.Break("")
	for rule, find := range map[string]func(*testing.T) error{
		"order-unannounced":          lateComers,
		"refused-taken-for-released": touched,
	} {
		if *flagMutation != "" && rule != *flagMutation {
			continue
		}
		mutations.Break(rule)
		if err := find(t); err == nil {
			t.Errorf("%s: it is not noticed", rule)
		} else {
			t.Logf("%-28s noticed: %v", rule, err)
		}
	}
}

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
			judge, _, _, endless := perform(t, seed, 5*time.Minute)
			if found = judge.Verdict(time.Minute); found == nil && len(endless) > 0 {
				found = fmt.Errorf("%q were told to resign, and have not ended", endless)
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
