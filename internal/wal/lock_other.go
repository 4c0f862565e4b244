//go:build !unix

package wal

import (
	"errors"
	"os"
)

// Without locks that end with their process two of them could write the same log.
var errNoLocks = errors.New("a log needs flock, which this system does not have: run without it")

func lockOpen(*os.File) error           { return errNoLocks }
func lockFile(string) (*os.File, error) { return nil, errNoLocks }
