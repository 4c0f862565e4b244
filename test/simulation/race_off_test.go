//go:build !race

package simulation_test

const (
	raceDetector = false
	fewSeeds     = 20 // of each profile
	large        = 100
)
