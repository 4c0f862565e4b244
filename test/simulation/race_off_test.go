//go:build !race

package simulation_test

const (
	raceDetector = false
	fewSeeds     = 12 // of each profile
	large        = 100
)
