//go:build race

package simulation_test

const (
	raceDetector = true
	fewSeeds     = 4
	large        = 12
)
