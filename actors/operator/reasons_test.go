package operator_test

import (
	"os"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/internal/leader"
	"github.com/coordd/coordd/actors/operator"
)

func TestEachReasonHasAWordWhereverPeopleReadIt(t *testing.T) {
	page, err := os.ReadFile("../web/page/timeline.js")
	if err != nil {
		t.Fatal(err)
	}
	timeline, _, _ := strings.Cut(string(page), "// flows are")
	keys, events, plans := leader.Reasons()
	for _, r := range keys {
		if operator.WordsOf(r).There == "" {
			t.Errorf("coordd explain has no word for %q", r)
		}
	}
	for _, r := range events {
		if operator.WordsOf(r).Event == "" {
			t.Errorf("coordd events has no word for %q", r)
		}
		if !strings.Contains(timeline, `"`+r+`":`) {
			t.Errorf("the page's timeline has no word for %q", r)
		}
	}
	for _, r := range plans {
		if operator.WordsOf(r).Plan == "" {
			t.Errorf("coordd plan has no word for %q", r)
		}
	}
}
