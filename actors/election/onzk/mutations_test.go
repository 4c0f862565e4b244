//go:build coordd_mutations

package onzk_test

import (
	"flag"
	"testing"

	"github.com/coordd/coordd/actors/election/internal/play"
)

var flagMutation = flag.String("mutation", "", "the only rule to break")

// breakages are the rules that are broken on purpose.
var breakages = []play.Breakage{
	{Name: "no-lease"},
	{Name: "lease-unconfirmed"},
	{Name: "leave-before-stop"},
	{Name: "release-before-stop"},
	{Name: "state-unchecked"},
	{Name: "lock-delay-not-waited-for"},
	{Name: "closed-while-led"},
	{Name: "period-of-a-clock-behind"},
	{Name: "run-recorded-at-its-end"},

	{Name: "no-margin", Covered: "the session, which lasts longer than the lease: ZooKeeper " +
		"hears of it later than that counts from"},
	{Name: "take-unchecked", Covered: "the session of each connection (1 history in 1,500)"},
}

func TestTheJudgeNoticesBrokenRules(t *testing.T) {
	play.Notices(t, breakages, *flagMutation, *flagFrom, perform)
}
