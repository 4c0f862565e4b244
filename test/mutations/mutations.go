// Package mutations breaks the rules of the product on purpose, to see that a test notices.
//
// The product has no switch for that. Each file NAME.patch beside this one says which lines of the
// product a broken rule changes. [Overlay] applies all of them to copies of those files, and
// `go build -overlay` builds the copies. In them each rule asks [Broken] whether it is switched off,
// so that one build serves all mutations. `make mutations` does that and plays each of them.
//
// A patch is a list of hunks. A line "@@ PATH" begins a hunk and names a file. The lines after it
// begin with a blank (context), "-" (what the product has) or "+" (what stands there instead).
// Blanks at the ends of a line do not count. The context and the "-" lines of a hunk must stand in
// the file exactly once. A patch that does not apply is an error.
package mutations

import (
	"slices"
	"strings"
	"sync/atomic"
)

var broken atomic.Pointer[[]string]

// Break switches one rule off, or several with a "+" between them, in all of this process. The empty
// string switches all on again. It panics in a build without the overlay, which has no such rules.
func Break(rule string) {
	if !Applied && rule != "" {
		panic("this build has no mutations: run `make mutations`, or build with the overlay that " +
			"`go run ./test/mutations/overlay bin/mutations` writes")
	}
	names := strings.Split(rule, "+")
	broken.Store(&names)
}

// Broken tells whether a rule is switched off. Only patched code asks.
func Broken(rule string) bool {
	names := broken.Load()
	return names != nil && slices.Contains(*names, rule)
}

// Or returns kept, or other if the rule is switched off. Only patched code asks.
func Or[T any](rule string, kept, other T) T {
	if Broken(rule) {
		return other
	}
	return kept
}
