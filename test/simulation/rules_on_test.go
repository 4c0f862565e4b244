//go:build coordd_mutations

package simulation_test

import (
	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/store"
)

// breakRule switches a rule of the actors off.
func breakRule(rule string) bool {
	actors.BreakRule(rule)
	configstore.BreakRule(rule)
	store.BreakRule(rule)
	return true
}
