//go:build unix

package wal_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
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
			must(t, err)
		}
		refused("open to others", dir, "chmod go-w")
	}
	must(t, os.Chmod(dir, 0o700))
	if os.Geteuid() == 0 { // who else may give a directory away
		must(t, os.Chown(dir, 1, 1))
		refused("another user's", dir, "belongs to user 1")
		must(t, os.Chown(dir, 0, 0))
	}

	target := filepath.Join(t.TempDir(), "target")
	for _, name := range []string{"log", "lock"} {
		link := filepath.Join(dir, name)
		_ = os.Remove(link)
		for _, err := range []error{os.WriteFile(target, []byte("theirs"), 0o600),
			os.Symlink(target, link)} {
			must(t, err)
		}
		refused("a link for "+name, dir, "symbolic link")
		if b, err := os.ReadFile(target); err != nil || string(b) != "theirs" {
			t.Errorf("%s was written through a link: %q, %v", name, b, err)
		}
		must(t, os.Remove(link))
	}
	for _, name := range []string{"log", "lock"} {
		pipe := filepath.Join(dir, name)
		_ = os.Remove(pipe)
		must(t, syscall.Mkfifo(pipe, 0o600))
		refused("a pipe for "+name, dir, "no regular file")
		must(t, os.Remove(pipe))
	}
	l, _ := open(t, dir, wal.Options{})
	must(t, l.Close())
	if _, err := wal.OpenFile(link(t, filepath.Join(dir, "conflicts"), target),
		os.O_CREATE|os.O_RDWR); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a file beside it through a link: %v", err)
	}
}

// He would choose where values are kept, which may be secrets, and which files are written to.
func TestADirectoryBehindAStrangersLinkIsRefused(t *testing.T) {
	target := t.TempDir()
	must(t, os.Chmod(target, 0o700))
	way := testkit.StrangersLink(t, target)
	l, _, err := wal.Open(way, wal.Options{})
	if err == nil {
		l.Close()
	}
	if err == nil || !strings.Contains(err.Error(), way+" is a link of user 65534") {
		t.Errorf("%s: %v", way, err)
	}
	if left, err := os.ReadDir(target); err != nil || len(left) > 0 {
		t.Errorf("behind it are %v, %v", left, err)
	}
}

func link(t *testing.T, path, target string) string {
	t.Helper()
	must(t, os.Symlink(target, path))
	return path
}
