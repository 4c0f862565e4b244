//go:build coordd_mutations

package simulation_test

import (
	"testing"
	"time"
)

// mutation is what the simulation has to say about one broken rule.
type mutation struct {
	name    string
	profile string // hard, unless said
	// rule that is expected to break first, for the record; any will do
	covered string // by which other rules, when nothing breaks; empty: it must be caught
}

var mutations = []mutation{
	{name: "no-guard"},
	{name: "no-new-epoch"},
	{name: "lease-from-reply"},
	{name: "no-lease"},
	{name: "not-addressed"},
	{name: "inherited-started-early"},
	{name: "inherited-released-early"},
	{name: "clear-not-chained"},
	{name: "token-of-key-alone"},
	{name: "prefix-without-slash"},
	{name: "release-before-stop"},
	{name: "release-without-conditions"},
	{name: "releases-forgotten"},
	{name: "no-grace"},
	{name: "gone-by-record-alone"},
	{name: "reap-in-two-steps"},
	{name: "reap-without-ack-check"},
	{name: "reap-without-record-check"},
	{name: "reap-without-either-check"},
	{name: "no-create-only"},
	{name: "no-receiver-check"},
	{name: "revoke-without-index"},
	{name: "partial-read"},
	{name: "uninformed"},
	{name: "stale-view"},
}

// TestMutations breaks the protocol's rules one by one and wants each breakage noticed.
func TestMutations(t *testing.T) {
	for _, m := range mutations {
		if *flagMutation != "" && m.name != *flagMutation {
			continue
		}
		begin := time.Now()
		profile := m.profile
		if profile == "" {
			profile = "hard"
		}
		wire := wireMutant(m.name)
		if wire == nil {
			breakRule(m.name)
		}
		caught := 0
		var found outcome
		for seed := range *flagSeeds {
			found = play(t, draw(profile, *flagFrom+uint64(seed)), wire, nil)
			if found.failed() {
				caught = seed + 1
				break
			}
		}
		breakRule("")
		switch {
		case caught > 0:
			t.Logf("%-28s caught by %v, seed %d of them, %v", m.name, found.rules(), caught, time.Since(begin).Round(10*time.Millisecond))
		default:
			t.Logf("%-28s NOT caught by %d seeds, %v", m.name, *flagSeeds, time.Since(begin).Round(10*time.Millisecond))
			if m.covered == "" {
				t.Errorf("%s: %d seeds have not noticed", m.name, *flagSeeds)
			}
		}
	}
}
