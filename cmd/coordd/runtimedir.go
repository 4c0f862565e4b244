package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/place"
)

// runtimeDirFrom says where the directory comes from, for errors.
const runtimeDirFrom = "it comes from RUNTIME_DIRECTORY, XDG_RUNTIME_DIR or else TMPDIR"

// runtimeDir is where lock files lie: a directory of this user alone. In a shared directory any
// user could hold a lock before it is taken.
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

// makeRuntimeDir makes it, and refuses one that another user owns or may write to.
func makeRuntimeDir() error {
	if _, err := place.Private(runtimeDir()); err != nil {
		return fmt.Errorf("directory for locks: %w; %s", err, runtimeDirFrom)
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
