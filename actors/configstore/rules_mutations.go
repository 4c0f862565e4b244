//go:build coordd_mutations

package configstore

import "sync/atomic"

var brokenRule atomic.Pointer[string]

// BreakRule switches one rule off, in all stores of this process; the empty string switches all on
// again. It exists only with the build tag coordd_mutations.
func BreakRule(rule string) { brokenRule.Store(&rule) }

func broken(rule string) bool {
	r := brokenRule.Load()
	return r != nil && *r == rule
}
