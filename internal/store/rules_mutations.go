//go:build coordd_mutations

package store

import (
	"slices"
	"strings"
	"sync/atomic"
)

var brokenRules atomic.Pointer[[]string]

// BreakRule switches one rule of the protocol off, in all members of this process;
// the empty string switches all on again. It exists only with the build tag coordd_mutations.
func BreakRule(rule string) {
	rules := strings.Split(rule, "+")
	brokenRules.Store(&rules)
}

func broken(rule string) bool {
	rules := brokenRules.Load()
	return rules != nil && slices.Contains(*rules, rule)
}
