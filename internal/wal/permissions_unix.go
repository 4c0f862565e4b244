//go:build unix

package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/coordd/coordd/internal/place"
)

// cautious refuses a symbolic link: it would be somebody else's choice what is written. It waits
// for nobody at the other end of a pipe.
const cautious = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func isLink(err error) bool { return errors.Is(err, syscall.ELOOP) }

// makeDirs makes a directory, and those that it is in, behind no link of another user's. It returns
// those that were not there.
func makeDirs(dir string) ([]string, error) {
	p, err := place.MakeDir(dir, true)
	if err != nil {
		return nil, err
	}
	return p.Made, checkOwner(p.Was)
}

// CheckDir refuses a directory in which others can put files: a log of theirs would be replayed,
// and a link written through. Nor may a link of theirs lead there.
func CheckDir(dir string) error {
	at, err := place.Dir(dir)
	if err != nil {
		return err
	}
	info, err := os.Lstat(at)
	if err != nil {
		return err
	}
	return checkOwner(info)
}

func checkOwner(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("it is no directory: move it away, or give another one")
	case ok && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, and this process is user %d: give one of its own",
			st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write to it (mode %04o): chmod go-w it, or give another one",
			info.Mode().Perm())
	}
	return nil
}
