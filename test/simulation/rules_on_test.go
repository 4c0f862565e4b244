//go:build coordd_mutations

package simulation_test

import "github.com/coordd/coordd/actors"

// breakRule switches a rule of the actors off.
func breakRule(rule string) bool {
	actors.BreakRule(rule)
	return true
}
