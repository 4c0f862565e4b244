//go:build !unix

package wal

import (
	"os"
	"path/filepath"
)

const cautious = 0

func isLink(error) bool { return false }

// makeDirs makes a directory and those that it is in, and returns those that were not there.
func makeDirs(dir string) (made []string, err error) {
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil {
			break
		}
		made = append(made, at)
	}
	return made, os.MkdirAll(dir, 0o700)
}

// CheckDir refuses a directory in which others can put files: not on this system.
func CheckDir(string) error { return nil }
