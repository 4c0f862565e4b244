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
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chmod(dir, 0o770))
	refused("open to others", dir, "chmod go-w") // and what else package place refuses
	must(t, os.Chmod(dir, 0o700))

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

func link(t *testing.T, path, target string) string {
	t.Helper()
	must(t, os.Symlink(target, path))
	return path
}
