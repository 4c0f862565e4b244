//go:build coordd_mutations

package onzk_test

import (
	"flag"
	"testing"

	"github.com/coordd/coordd/actors/election/internal/play"
	"github.com/coordd/coordd/test/mutations"
)

var flagMutation = flag.String("mutation", "", "the only rule to break")

// breakages are the rules that are broken on purpose.
var breakages = []play.Breakage{
	{Name: "no-lease"},
	{Name: "lease-unconfirmed"},
	{Name: "leave-before-stop"},
	{Name: "release-before-stop"},
	{Name: "lock-delay-not-waited-for"},
	{Name: "closed-while-led"},

	{Name: "no-margin", Covered: "the session, which lasts longer than the lease: ZooKeeper " +
		"hears of it later than that counts from"},
	{Name: "take-unchecked", Covered: "the session of each connection (1 history in 1,500)"},
	{Name: "released-in-any-term", Covered: "the candidate's node, which goes with the release"},
}

// What the judge finds once in a thousand histories or so: another test plays that one.
func TestBrokenRulesOfADepartureAreNoticed(t *testing.T) {
	const rule = "departed-in-any-term"
	if *flagMutation != "" && *flagMutation != rule {
		return
	}
	defer mutations.Break("")
	mutations.Break(rule)
	if err := lateDeparture(t); err == nil {
		t.Errorf("%s: it is not noticed", rule)
	} else {
		t.Logf("%-28s noticed: %v", rule, err)
	}
}

func TestTheJudgeNoticesBrokenRules(t *testing.T) {
	play.Notices(t, breakages, *flagMutation, *flagFrom, perform)
}
