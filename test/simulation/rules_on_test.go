//go:build coordd_mutations

package simulation_test

import rules "github.com/coordd/coordd/test/mutations"

// breakRule switches a rule off in all of this process.
func breakRule(rule string) bool {
	rules.Break(rule)
	return true
}
