//go:build !coordd_mutations

package store

// broken tells whether a rule of the protocol is switched off. Here none ever is:
// only with the build tag coordd_mutations can the simulation switch one off, to
// see that it notices.
func broken(string) bool { return false }
