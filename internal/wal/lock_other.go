//go:build !unix

package wal

import (
	"errors"
	"os"
)

// lockFile: without a lock that ends with its process two of them could write the same log.
func lockFile(string) (*os.File, error) {
	return nil, errors.New("a log needs flock, which this system does not have: run without it")
}
