//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// privateRuntimeDir gives the test a directory for locks of its own, and returns the one above it.
func privateRuntimeDir(t *testing.T) string {
	t.Helper()
	t.Setenv("RUNTIME_DIRECTORY", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", t.TempDir())
	return os.Getenv("TMPDIR")
}

func TestADirectoryForLocksThatIsSomebodyElsesIsRefused(t *testing.T) {
	above := privateRuntimeDir(t)
	dir := runtimeDir()
	if filepath.Dir(dir) != above {
		t.Fatalf("it is %s, not in %s", dir, above)
	}
	if err := os.Setenv("TMPDIR", os.DevNull); err != nil { // privateRuntimeDir puts it back
		t.Fatal(err)
	}
	if err := checkLock(lockFile("svc", "m1")); err == nil || !strings.Contains(err.Error(),
		"give a directory") {
		t.Errorf("TMPDIR is no directory: %v, want what to do", err)
	}
	must(t, os.Setenv("TMPDIR", above))
	refused := func(what, say string) {
		t.Helper()
		if err := checkLock(lockFile("svc", "m1")); err == nil || !strings.Contains(err.Error(),
			say) || !strings.Contains(err.Error(), "TMPDIR") {
			t.Errorf("%s: %v, want %q and what to do", what, err, say)
		}
		must(t, os.RemoveAll(dir))
	}
	if os.Geteuid() == 0 { // who else may give a link away
		must(t, os.Mkdir(above+"/other", 0o700))
		must(t, os.Symlink(above+"/other", dir))
		must(t, os.Lchown(dir, 1, 1))
		refused("another user's link", "is a link of user 1")
	}
	must(t, os.WriteFile(dir, nil, 0o600))
	refused("a file", "is no directory")
	for _, err := range []error{os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)} {
		must(t, err)
	}
	refused("open to all", "chmod go-w")
	if os.Geteuid() == 0 { // who else may give a directory away
		for _, err := range []error{os.Mkdir(dir, 0o700), os.Chown(dir, 1, 1)} {
			must(t, err)
		}
		refused("another user's", "belongs to user 1")
	}
	if err := checkLock(lockFile("svc", "m1")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it was made with %v (%v), want 0700", info.Mode(), err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	if got := runtimeDir(); got != "/run/user/7/coordd" {
		t.Errorf("with XDG_RUNTIME_DIR: %s", got)
	}
	t.Setenv("RUNTIME_DIRECTORY", "/run/coordd:/run/other")
	if got := runtimeDir(); got != "/run/coordd" {
		t.Errorf("with RUNTIME_DIRECTORY: %s", got)
	}
}
