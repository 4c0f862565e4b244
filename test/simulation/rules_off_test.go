//go:build !coordd_mutations

package simulation_test

// breakRule switches a rule of the actors off; false: this build cannot.
func breakRule(rule string) bool { return rule == "" }
