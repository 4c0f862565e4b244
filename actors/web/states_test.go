package web_test

import (
	"os"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors"
)

func TestThePageHasAWordAndAPlaceForEachState(t *testing.T) {
	page, err := os.ReadFile("page/base.js")
	if err != nil {
		t.Fatal(err)
	}
	_, order, _ := strings.Cut(string(page), "const ORDER = [")
	order, _, _ = strings.Cut(order, "]")
	for _, state := range actors.ItemStates {
		if !strings.Contains(string(page), `"`+string(state)+`": [`) ||
			!strings.Contains(order, `"`+string(state)+`"`) {
			t.Errorf("the page has no word or no place for %q", state)
		}
	}
}
