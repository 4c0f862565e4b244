package main

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNamesThatASlipMakesOfOneAnotherAreAlike(t *testing.T) {
	names := []string{"demo", "billing", "COORDD_TTL", "COORDD_LOCK_DELAY", "lock-delay", "status"}
	for name, want := range map[string][]string{
		"dmeo":             {"demo"},
		"demo":             nil, // it is that name
		"COORDD_TLL":       {"COORDD_TTL"},
		"COORDD_LOCKDELAY": {"COORDD_LOCK_DELAY"},
		"lock_delay":       {"lock-delay"},
		"stat":             {"status"},
		"zzz":              nil,
		"":                 nil,
	} {
		if got := alike(name, names); !slices.Equal(got, want) {
			t.Errorf("alike to %q: %q, want %q", name, got, want)
		}
	}
}

func TestSlipsAreADistance(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		switch d := slips(a, b); {
		case d != slips(b, a):
			t.Errorf("from %q to %q: %d, and back: %d", a, b, d, slips(b, a))
		case (d == 0) != (a == b):
			t.Errorf("from %q to %q: %d", a, b, d)
		case d > max(len(a), len(b)):
			t.Errorf("from %q to %q: %d, more than there are letters", a, b, d)
		}
	})
}
