//go:build unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/place"
	"github.com/coordd/coordd/internal/testkit"
)

// In /tmp another user can have a link, a file or a pipe by the name before.
func TestAnExportFollowsNobodyElseInASharedDirectory(t *testing.T) {
	home, shared := t.TempDir(), testkit.SharedDir(t)
	victim := filepath.Join(home, "authorized_keys")
	in := func(name string) string { return filepath.Join(shared, name) }
	link := func(target, name string) {
		t.Helper()
		must(t, os.Symlink(target, in(name)))
		testkit.GiveAway(t, in(name))
	}
	link(victim, "link")
	link(filepath.Join(home, "new"), "dangling")
	link(home, "directory")
	must(t, os.Symlink("link", in("ours")))
	must(t, os.WriteFile(in("file"), nil, 0o600))
	testkit.GiveAway(t, in("file"))
	must(t, syscall.Mkfifo(in("pipe"), 0o600))
	testkit.GiveAway(t, in("pipe"))
	for _, name := range []string{"link", "dangling", "directory/authorized_keys", "ours", "file",
		"pipe"} {
		must(t, os.WriteFile(victim, []byte("mine"), 0o600))
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience) // of a pipe
		err := writeWhole(ctx, in(name), []byte("anything"))
		cancel()
		if err == nil || !strings.Contains(err.Error(), "of user 65534, in a directory") {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile(victim); string(got) != "mine" {
			t.Errorf("root's file behind %s holds %q", name, got)
		}
		if h, err := openHistory(in(name)); err == nil {
			h.file.Close()
			t.Errorf("a history was begun in %s", name)
		}
	}
	if info, err := os.Stat(in("file")); err != nil || info.Size() > 0 {
		t.Errorf("what was exported belongs to another user: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(home, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made where another user's link leads to: %v", err)
	}
	if left, _ := filepath.Glob(in(".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	// What is root's own, as the directory is, stays usable.
	must(t, os.Remove(in("ours")))
	must(t, os.Symlink(victim, in("ours")))
	must(t, writeWhole(t.Context(), in("ours"), []byte("new")))
	if got, _ := os.ReadFile(victim); string(got) != "new" {
		t.Errorf("behind root's own link is %q", got)
	}
}

func TestAnExportGoesWhereItsPathLeads(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return dir + "/" + strings.Join(parts, "/") }
	must(t, os.MkdirAll(at("a", "deep"), 0o700))
	must(t, os.Symlink("a/deep", at("link")))
	must(t, os.Symlink("../made", at("a", "dangling")))
	must(t, os.Symlink("loop", at("loop")))
	must(t, os.Symlink("/dev/stdout", at("out")))
	t.Chdir(at("a"))
	for name, want := range map[string]string{
		at("link", "..", "x"):    at("a", "x"), // as the kernel sees it, and not as text
		"../link/x":              at("a", "deep", "x"),
		"dangling":               at("made"),
		at("link", "", ".", "y"): at("a", "deep", "y"),
	} {
		must(t, writeWhole(t.Context(), name, []byte(name)))
		if got, err := os.ReadFile(want); string(got) != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]error{
		at("loop"): syscall.ELOOP, at("x", ""): syscall.EISDIR, at("none", "x"): fs.ErrNotExist,
		at("none", "..", "x"): fs.ErrNotExist, at("made", "x"): syscall.ENOTDIR,
		at("a"): syscall.EISDIR,
	} {
		if err := writeWhole(t.Context(), name, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{at("out"), "/dev/stdout",
		strings.Repeat("../", 40) + "dev/stdout"} {
		if p, err := place.Of(name); err != nil || p.Plain || p.Was != nil {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// Who may write to the directory may put a link or another file in the place of what has been
// looked at.
func TestNothingIsOpenedThatHasComeInThePlaceOfWhatWasLookedAt(t *testing.T) {
	dir := t.TempDir()
	victim, name := filepath.Join(dir, "victim"), filepath.Join(dir, "name")
	link := func() { must(t, os.Symlink(victim, name)) }
	for what, c := range map[string]struct{ before, then func() }{
		"a link where nothing was": {func() {}, link},
		"a file where nothing was": {func() {}, func() { must(t, os.Link(victim, name)) }},
		"a link in a file's place": {func() { must(t, os.WriteFile(name, nil, 0o600)) }, link},
		"a file in a file's place": {func() { must(t, os.WriteFile(name, nil, 0o600)) },
			func() { must(t, os.Link(victim, name)) }},
		"a pipe in a file's place": {func() { must(t, os.WriteFile(name, nil, 0o600)) },
			func() { must(t, syscall.Mkfifo(name, 0o600)) }},
		"a link in a pipe's place": {func() { must(t, syscall.Mkfifo(name, 0o600)) }, link},
		"a file in a pipe's place": {func() { must(t, syscall.Mkfifo(name, 0o600)) },
			func() { must(t, os.Link(victim, name)) }},
	} {
		must(t, os.WriteFile(victim, []byte("the old one"), 0o600))
		_ = os.Remove(name)
		c.before()
		p, err := place.Of(name)
		must(t, err)
		_ = os.Remove(name)
		c.then()
		for _, flags := range []int{os.O_APPEND | os.O_CREATE | os.O_RDWR,
			os.O_WRONLY | os.O_TRUNC} {
			f, err := p.Open(flags, 0o600)
			if err == nil {
				f.Close()
			}
			moved := errors.Is(err, place.ErrMoved)
			if flags&os.O_CREATE != 0 && !moved || p.Was != nil && err == nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if p.Was != nil && !errors.Is(writeOver(p, []byte("new")), place.ErrMoved) {
			t.Errorf("%s was written to", what)
		}
		if got, _ := os.ReadFile(victim); string(got) != "the old one" {
			t.Errorf("%s: it holds %q", what, got)
		}
	}
}

func TestAFileIsWrittenOverBehindNoLink(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("the old one"), 0o600))
	p, err := place.Of(file)
	must(t, err)
	must(t, writeOver(p, []byte("new")))
	if got, _ := os.ReadFile(file); string(got) != "new" {
		t.Errorf("it holds %q", got)
	}
	must(t, os.Rename(file, file+"2"))
	must(t, os.Symlink(file+"2", file))
	// Also to the same file.
	if err := writeOver(p, []byte("newer")); !errors.Is(err, place.ErrMoved) {
		t.Errorf("behind a link: %v", err)
	}
	must(t, os.Remove(file))
	must(t, syscall.Mkfifo(file, 0o600))
	// It waits for no reader.
	if err := writeOver(p, []byte("newer")); !errors.Is(err, place.ErrMoved) {
		t.Errorf("into a pipe: %v", err)
	}
	if got, _ := os.ReadFile(file + "2"); string(got) != "new" {
		t.Errorf("it holds %q", got)
	}
}
