//go:build linux

package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Killed together with its guard process, a candidate leaves its lock file to nobody.
func TestACandidateRemovesTheLockFilesOfKilledOnes(t *testing.T) {
	privateRuntimeDir(t)
	must(t, makeRuntimeDir())
	left, held := filepath.Join(runtimeDir(), "elect-1-1.lock"), filepath.Join(runtimeDir(),
		"elect-1-2.lock")
	members := filepath.Join(runtimeDir(), "0123456789abcdef.lock")
	for _, path := range []string{left, held, members} {
		must(t, os.WriteFile(path, nil, 0o600))
	}
	f, err := os.Open(held)
	must(t, err)
	defer f.Close()
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	if _, err := newCommandRunner(electFlags{}, nil, "e", "true",
		slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("what a killed one left: %v, want none", err)
	}
	for _, path := range []string{held, members} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s is not a killed one's: %v", path, err)
		}
	}
}
