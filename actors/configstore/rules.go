//go:build !coordd_mutations

package configstore

// broken tells whether a rule is switched off. Here none ever is: only with the build tag coordd_mutations
// can the simulation switch one off, to see that it notices.
func broken(string) bool { return false }
