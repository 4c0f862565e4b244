//go:build coordd_mutations

package onconsul_test

import (
	"flag"
	"testing"

	"github.com/coordd/coordd/actors/election/internal/play"
	"github.com/coordd/coordd/test/mutations"
)

var flagMutation = flag.String("mutation", "", "the only rule to break")

// breakages are the rules that are broken on purpose, two at once with a "+" between them.
var breakages = []play.Breakage{
	{Name: "no-lease"},
	{Name: "no-margin"},
	{Name: "lease-from-reply"},
	{Name: "begun-unchecked"},
	{Name: "leave-before-stop"},
	{Name: "release-before-stop"},
	{Name: "left-for-another"},
	{Name: "take-unchecked"},
	{Name: "term-unchecked"},
	{Name: "taken-while-held+term-unchecked"},
	{Name: "lock-delay-not-in-term"},
	{Name: "lock-delay-not-waited-for"},
	{Name: "lock-delay-below-lease"},
	{Name: "released-unchecked+released-in-any-term"},
	{Name: "deleted-at-once"},
	{Name: "deleted-while-led+deleted-at-once"},
	{Name: "closed-before-drained"},

	{Name: "taken-while-held", Covered: "the term, which nobody has seen free who sees a leader"},
	{Name: "closed-while-led", Covered: "the lock-delay, for which all wait when a session ends"},
	{Name: "released-unchecked", Covered: "the term, which the next leader has changed"},
	{Name: "released-in-any-term", Covered: "the check of the leader's key, which is another one"},
	{Name: "deleted-while-led",
		Covered: "the wait for the lock-delay: by then the leader has heard of the end, or its " +
			"lease is over"},
}

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
	play.Notices(t, breakages, *flagMutation, *flagFrom, perform)
}
