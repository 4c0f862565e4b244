package testkit_test

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

func TestASeedDrawsItsInputAgainAndNoOther(t *testing.T) {
	t.Setenv("COORDD_TEST_SEED", "299")
	var drawn []string
	for range 2 {
		testkit.Draws(t, func(_ *testing.T, d testkit.Dice) {
			drawn = append(drawn, fmt.Sprint(d.Few(1000), d.Uint64()))
		})
	}
	if len(drawn) != 2 || drawn[0] != drawn[1] {
		t.Errorf("drawn: %q", drawn)
	}
}
