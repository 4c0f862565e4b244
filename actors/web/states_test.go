package web_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/operator"
)

func TestThePageHasAWordAndAPlaceForEachState(t *testing.T) {
	page, err := os.ReadFile("page/base.js")
	if err != nil {
		t.Fatal(err)
	}
	_, order, _ := strings.Cut(string(page), "const ORDER = [")
	order, _, _ = strings.Cut(order, "]")
	for _, state := range operator.ItemStates {
		if !strings.Contains(string(page), `"`+string(state)+`": [`) ||
			!strings.Contains(order, `"`+string(state)+`"`) {
			t.Errorf("the page has no word or no place for %q", state)
		}
	}
}

// The words of the event log are those of package protocol; a later version may have more.
func TestThePageHasASentenceForEachKindOfEvent(t *testing.T) {
	timeline, err := os.ReadFile("page/timeline.js")
	if err != nil {
		t.Fatal(err)
	}
	words, err := os.ReadFile("../../internal/protocol/events.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`\tEvent[A-Z]\w+ += ("[a-z-]+")`).FindAllSubmatch(words, -1)
	if len(kinds) < 15 {
		t.Fatalf("%d kinds of events were found: they are written otherwise now", len(kinds))
	}
	for _, kind := range append(kinds, [][]byte{nil, []byte(`"` + operator.EventsMore + `"`)},
		[][]byte{nil, []byte(`"` + operator.EventsMissed + `"`)}) {
		if !strings.Contains(string(timeline), "case "+string(kind[1])+":") {
			t.Errorf("the timeline has no sentence for events of the kind %s", kind[1])
		}
	}
}
