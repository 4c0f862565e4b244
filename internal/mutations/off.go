//go:build !coordd_mutations

// Package mutations tells whether a rule is switched off: of the protocol, of elections, of the
// configuration.
package mutations

// Broken tells whether a rule is switched off. Here none ever is: only with the build tag
// coordd_mutations can a test switch one off, to see that it is noticed.
func Broken(string) bool { return false }
