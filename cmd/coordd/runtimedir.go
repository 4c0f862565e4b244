package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/place"
)

// runtimeDirFrom says where the directory comes from, for errors.
const runtimeDirFrom = "it comes from RUNTIME_DIRECTORY, XDG_RUNTIME_DIR or else TMPDIR"

// runtimeDir is where lock files lie: a directory of this user alone. In one that is shared,
// anybody could hold a lock before it is taken.
func runtimeDir() string {
	// systemd's RuntimeDirectory=
	if dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		return dir
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "coordd")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("coordd-%d", os.Geteuid()))
}

// makeRuntimeDir makes it, and refuses one that is, or could be, somebody else's: also one to which
// his link leads.
func makeRuntimeDir() error {
	dir := runtimeDir()
	if _, err := place.MakeDir(dir, false); err != nil {
		return fmt.Errorf("directory for locks: %w: choose another one; %s", err, runtimeDirFrom)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("directory for locks: %w; %s", err, runtimeDirFrom)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf(
			"directory for locks: %s is no directory: remove it, or choose another one; %s", dir,
			runtimeDirFrom)
	case ok && int(st.Uid) != os.Geteuid():
		return fmt.Errorf(
			"directory for locks: %s belongs to user %d and not to %d: choose another one; %s", dir,
			st.Uid, os.Geteuid(), runtimeDirFrom)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("directory for locks: others may write to %s (mode %04o): chmod go-w "+
			"it, or choose another one; %s",
			dir, info.Mode().Perm(), runtimeDirFrom)
	}
	return nil
}

// checkLock makes the directory and the file.
func checkLock(file string) error {
	if err := makeRuntimeDir(); err != nil {
		return err
	}
	if err := guard.CheckLockFile(file); err != nil {
		return fmt.Errorf("%w; %s", err, runtimeDirFrom)
	}
	return nil
}
