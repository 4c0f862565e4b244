//go:build race

package simulation_test

const (
	raceDetector = true
	fewSeeds     = 3
	large        = 12
)
