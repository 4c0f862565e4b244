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
	{Name: "state-unchecked"},
	{Name: "taken-while-held+state-unchecked"},
	{Name: "lock-delay-not-in-state"},
	{Name: "lock-delay-not-waited-for"},
	{Name: "lock-delay-below-lease"},
	{Name: "released-unchecked+state-unchecked"},
	{Name: "deleted-at-once"},
	{Name: "deleted-while-led+deleted-at-once"},
	{Name: "closed-before-drained"},
	{Name: "period-of-a-clock-behind"},
	{Name: "run-recorded-at-its-end"},

	{Name: "taken-while-held", Covered: "the state, which the leader has written"},
	{Name: "closed-while-led", Covered: "the lock-delay, for which all wait when a session ends"},
	{Name: "released-unchecked", Covered: "the state, which the next leader has written"},
	{Name: "deleted-while-led",
		Covered: "the wait for the lock-delay: by then the leader has heard of the end, or its " +
			"lease is over"},
}

// What the judge finds once in a thousand histories or so: other tests play those.
func TestBrokenRulesOfWhatIsLateAreNoticed(t *testing.T) {
	defer mutations.Break("")
	for rule, find := range map[string]func(*testing.T) error{
		"take-unchecked":    func(t *testing.T) error { return lateTake(t, false) },
		"retaken-unwritten": lateRelease,
	} {
		if *flagMutation != "" && *flagMutation != rule {
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
