//go:build unix

// Package place makes directories in which no other user can put anything.
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Private makes the directory where there is none, in a parent that is there, for its user alone.
// It returns its path without links. See [Check] for what it refuses.
func Private(dir string) (at string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%w: make its parent, or give a directory that this user may make",
			err)
	}
	if err = Check(dir); err != nil {
		return "", err
	}
	if at, err = filepath.EvalSymlinks(dir); err == nil {
		if err = unix.Access(at, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
			err = &fs.PathError{Op: "read and write to", Path: at, Err: err}
		}
	}
	return at, err
}

// Check refuses what is no directory, belongs to another user than this one and root, or can be
// written to by others: they could put files or links there. It refuses another user's link, too.
// The error says what to do.
func Check(dir string) error {
	link, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	of, _ := link.Sys().(*syscall.Stat_t)
	switch {
	case ok && link.Mode()&fs.ModeSymlink != 0 && of.Uid != 0 && int(of.Uid) != os.Geteuid():
		return fmt.Errorf("%s is a link of user %d: give a directory of this user", dir, of.Uid)
	case !info.IsDir():
		return fmt.Errorf("%s is no directory: remove it, or give another one", dir)
	case ok && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d and not to %d: give a directory of this user", dir,
			st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write to %s (mode %04o): chmod go-w it, or give another one",
			dir, info.Mode().Perm())
	}
	return nil
}
