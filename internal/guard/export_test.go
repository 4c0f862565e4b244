//go:build unix

package guard

// Replacing is for tests.
var Replacing = replacing
