//go:build race

package actors_test

// raceDetector: its own runtime gives up (kEpochLast) when one process goes through too many
// bubbles, and takes five times as long; so it sees some of each kind, and `make test` plays
// the others without it.
const raceDetector = true
