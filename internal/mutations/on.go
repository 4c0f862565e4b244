//go:build coordd_mutations

// Package mutations tells whether a rule is switched off: of the protocol, of elections, of the
// configuration.
package mutations

import (
	"slices"
	"strings"
	"sync/atomic"
)

var broken atomic.Pointer[[]string]

// Break switches one rule off, or several with a "+" between them, in all of this process; the
// empty string switches all on again. It exists only with the build tag coordd_mutations.
func Break(rule string) {
	names := strings.Split(rule, "+")
	broken.Store(&names)
}

// Broken tells whether a rule is switched off.
func Broken(rule string) bool {
	names := broken.Load()
	return names != nil && slices.Contains(*names, rule)
}
