package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A crash or a full disk in the middle of an export leaves the export of before. Whoever reads that
// one at the moment reads it to its end.
func TestAnExportReplacesAFileAsAWhole(t *testing.T) {
	t.Run("on a disk", func(t *testing.T) { exportReplaces(t, t.TempDir()) })
	t.Run("in memory", func(t *testing.T) { // below /dev, where other files are none
		dir, err := os.MkdirTemp("/dev/shm", "coordd-test-")
		if err != nil {
			dir = t.TempDir() // no Linux, or none with a shared memory
		}
		defer os.RemoveAll(dir)
		exportReplaces(t, dir)
	})
}

func exportReplaces(t *testing.T, dir string) {
	t.Helper()
	name, link := filepath.Join(dir, "config.jsonl"), filepath.Join(dir, "link")
	must(t, os.WriteFile(name, []byte("the old one"), 0o640))
	must(t, os.Symlink("config.jsonl", link))
	for _, to := range []string{name, link} {
		old, err := os.Open(name)
		must(t, err)
		was, _ := os.ReadFile(name)
		must(t, writeWhole(t.Context(), to, []byte("new, by "+to)))
		if got, _ := io.ReadAll(old); string(got) != string(was) {
			t.Errorf("%s: who reads the old one reads %q", to, got)
		}
		old.Close()
		got, err := os.ReadFile(name)
		info, _ := os.Stat(name)
		if err != nil || string(got) != "new, by "+to || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %q, %v, %v", to, got, info.Mode(), err)
		}
	}
	if at, err := os.Readlink(link); err != nil || at != "config.jsonl" {
		t.Errorf("the link leads to %q, %v", at, err)
	}
	fresh := filepath.Join(dir, "fresh")
	must(t, writeWhole(t.Context(), fresh, []byte("x")))
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if err := writeWhole(t.Context(), filepath.Join(dir, "none", "x"), []byte("x")); err == nil {
		t.Error("a directory that does not exist was written to")
	}
}
