package leader

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/placement"
)

func TestEachReasonHasItsTraits(t *testing.T) {
	code, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^\t(reason\w+) +reason += `).FindAllSubmatch(code, -1)
	if len(constants) != len(traits) {
		t.Errorf("%d constants, and traits of %d", len(constants), len(traits))
	}
	for _, c := range constants {
		if !strings.Contains(string(code), "\t"+string(c[1])+":") {
			t.Errorf("%s has no traits", c[1])
		}
	}
	for r := placement.New; r.String() != "unknown"; r++ {
		if _, known := traits[reason(r.String())]; !known {
			t.Errorf("the planner's reason %q has no traits", r)
		}
	}
}
