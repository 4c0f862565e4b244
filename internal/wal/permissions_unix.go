//go:build unix

package wal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coordd/coordd/internal/place"
)

// cautious refuses a symbolic link: it would be somebody else's choice what is written. It waits
// for nobody at the other end of a pipe.
const cautious = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func isLink(err error) bool { return errors.Is(err, syscall.ELOOP) }

// makeDirs makes a directory and those that it is in, and returns those that were not there.
func makeDirs(dir string) (made []string, err error) {
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil {
			break
		}
		made = append(made, at)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return made, place.Check(dir)
}

// CheckDir refuses a directory in which others can put files: a log of theirs would be replayed,
// and a link written through.
func CheckDir(dir string) error { return place.Check(dir) }
