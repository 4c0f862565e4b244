//go:build linux

package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/store"
)

// The dead process is this one as it would be had it started earlier. Its lock is a file, which
// another one replaces or another directory hides: then it may run commands that hold the first.
func TestADeadPredecessorsCommandsAreKnownToBeGoneByItsVeryLockAlone(t *testing.T) {
	dead := store.Self("before")
	dead.StartTime--
	if dead.Liveness() != store.Dead {
		t.Fatalf("it is %v", dead.Liveness())
	}
	privateRuntimeDir(t)
	file := lockFile("svc", "m1")
	if err := checkLock(file); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("%x.%x.%d", st.Dev, st.Ino, st.Uid)

	idle := func(lock string) actors.Liveness {
		dead.Lock = lock
		return idleLiveness("svc", "m1")(dead)
	}
	own := idleLiveness("svc", "m1")
	for _, c := range []struct {
		lock string
		want actors.Liveness
	}{{actors.NoLock, actors.Dead}, {"", actors.Unknown}, {id + "1", actors.Unknown}} {
		if got := idle(c.lock); got != c.want {
			t.Errorf("without commands of its own: lock %q: %v, want %v", c.lock, got, c.want)
		}
	}
	held, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if got := idle(id); got != actors.Unknown {
		t.Errorf("its guard process lives: %v", got)
	}
	held.Close()
	dead.Lock = id
	for i := range 2 { // the file is gone the second time
		if got := own(dead); got != actors.Dead {
			t.Errorf("its lock is free, asked %d times: %v", i+1, got)
		}
	}
	if got := idle(id); got != actors.Unknown {
		t.Errorf("its lock file is not there: %v", got)
	}

	c, err := newCommands(runFlags{serviceFlags: serviceFlags{service: "svc"}, id: "m1",
		exec: "true", ttl: 10 * time.Second}, time.Second, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for lock, want := range map[string]actors.Liveness{actors.NoLock: actors.Dead,
		"": actors.Unknown, id: actors.Unknown} {
		dead.Lock = lock
		if got := c.liveness(dead); got != want {
			t.Errorf("without a lock: lock %q: %v, want %v", lock, got, want)
		}
	}
}

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
		"choose another") {
		t.Errorf("TMPDIR is no directory: %v, want what to do", err)
	}
	if err := os.Setenv("TMPDIR", above); err != nil {
		t.Fatal(err)
	}
	refused := func(what, say string) {
		t.Helper()
		if err := checkLock(lockFile("svc", "m1")); err == nil || !strings.Contains(err.Error(),
			say) || !strings.Contains(err.Error(), "TMPDIR") {
			t.Errorf("%s: %v, want %q and what to do", what, err, say)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Mkdir(above+"/other", 0o700), os.Symlink(above+"/other", dir)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	refused("a link", "is no directory")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a file", "is no directory")
	for _, err := range []error{os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	refused("open to all", "chmod go-w")
	if os.Geteuid() == 0 { // who else may give a directory away
		for _, err := range []error{os.Mkdir(dir, 0o700), os.Chown(dir, 1, 1)} {
			if err != nil {
				t.Fatal(err)
			}
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
