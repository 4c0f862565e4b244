//go:build linux

package guard

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// In the package: from outside these are races that few runs would see.

func TestWhatTheFormerHolderLeftIsKilledBeforeItsEndShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	// No guard has this token, so it is not known to be dead by itself: the lock is what says so.
	const token = "former-holder"
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := exec.Command("sleep", "1000")
	left.Env = append(os.Environ(), markerEnv+"="+token+"/1")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	l := &locker{path: path, token: newToken()}
	swept, err := l.try()
	if swept != 1 || err != nil {
		_ = left.Process.Kill()
		t.Errorf("%d killed (%v), want 1", swept, err)
	}
	if err := left.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	defer l.file.Load().Close()
	if b, err := os.ReadFile(path); err != nil || string(b) != l.token+"\n" {
		t.Errorf("for the next one it says %q (%v), want %q", b, err, l.token)
	}

	second := &locker{path: path, token: newToken()}
	if _, err := second.try(); !errors.Is(err, errLockHeld) {
		t.Errorf("the second: %v, want %v", err, errLockHeld)
	}
}

func TestAFileThatLostItsNameIsNotTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := flockNow(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !named(f, path) {
		t.Error("not named while it is there")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if named(f, path) {
		t.Error("named when it was removed")
	}
	other, err := flockNow(path)
	if err != nil {
		t.Fatalf("the new file: %v", err)
	}
	defer other.Close()
	if named(f, path) || !named(other, path) {
		t.Error("the new file is the lock, not the old one")
	}
	// The end of the process that held the old one leaves the new one alone.
	old := &locker{path: path}
	old.file.Store(f)
	old.tidy()
	if !named(other, path) {
		t.Error("another's file was removed")
	}
}
