//go:build unix

package wal_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/wal"
)

func TestADirectoryThatOthersCanWriteToIsRefused(t *testing.T) {
	refused := func(what, dir, say string) {
		t.Helper()
		l, _, err := wal.Open(dir, wal.Options{})
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(),
			dir) {
			t.Errorf("%s: %v, want %q", what, err, say)
		}
	}
	dir := filepath.Join(t.TempDir(), "log")
	for _, mode := range []os.FileMode{0o777, 0o1777, 0o770} {
		for _, err := range []error{os.MkdirAll(dir, 0o700), os.Chmod(dir, mode)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		refused("open to others", dir, "chmod go-w")
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // who else may give a directory away
		if err := os.Chown(dir, 1, 1); err != nil {
			t.Fatal(err)
		}
		refused("another user's", dir, "belongs to user 1")
		if err := os.Chown(dir, 0, 0); err != nil {
			t.Fatal(err)
		}
	}

	target := filepath.Join(t.TempDir(), "target")
	for _, name := range []string{"log", "lock"} {
		link := filepath.Join(dir, name)
		_ = os.Remove(link)
		for _, err := range []error{os.WriteFile(target, []byte("theirs"), 0o600),
			os.Symlink(target, link)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		refused("a link for "+name, dir, "symbolic link")
		if b, err := os.ReadFile(target); err != nil || string(b) != "theirs" {
			t.Errorf("%s was written through a link: %q, %v", name, b, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"log", "lock"} {
		pipe := filepath.Join(dir, name)
		_ = os.Remove(pipe)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		refused("a pipe for "+name, dir, "no regular file")
		if err := os.Remove(pipe); err != nil {
			t.Fatal(err)
		}
	}
	l, _ := open(t, dir, wal.Options{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := wal.OpenFile(link(t, filepath.Join(dir, "conflicts"), target),
		os.O_CREATE|os.O_RDWR); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a file beside it through a link: %v", err)
	}
}

func link(t *testing.T, path, target string) string {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}
