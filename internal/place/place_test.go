//go:build unix

package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

func TestWhatBelongsToAStrangerIsToldByTheDirectory(t *testing.T) {
	const us, host, other = 1, 2, 3
	for _, c := range []struct {
		dir   fs.FileMode
		whose int
		want  bool
	}{
		{fs.ModeSticky | 0o777, other, true}, {fs.ModeSticky | 0o770, other, true},
		{fs.ModeSticky | 0o703, other, true}, {fs.ModeSticky | 0o777, us, false},
		{fs.ModeSticky | 0o777, host, false}, {fs.ModeSticky | 0o777, root, false},
		{0o777, other, false},
		{fs.ModeSticky | 0o755, other, false},
	} {
		if got := strangers(c.dir, host, c.whose, us); got != c.want {
			t.Errorf("in a directory with %v, of user %d: %v", c.dir, c.whose, got)
		}
	}
}

func TestADirectoryIsFoundBehindNoStrangersLink(t *testing.T) {
	home, shared := t.TempDir(), testkit.SharedDir(t)
	in := func(name string) string { return filepath.Join(shared, name) }
	for name, target := range map[string]string{"link": home,
		"dangling": filepath.Join(home, "new"), "twice": "ours"} {
		testkit.Must(t, os.Symlink(target, in(name)))
		testkit.GiveAway(t, in(name))
	}
	testkit.Must(t, os.Symlink("link", in("ours")))
	testkit.Must(t, os.Mkdir(in("directory"), 0o755))
	testkit.GiveAway(t, in("directory"))
	for name, says := range map[string]string{"link": "link", "link/a/b": "link",
		"dangling": "link", "dangling/a": "link", "ours": "link", "twice/../x": "link",
		"directory": "directory", "directory/a": "directory"} {
		at, err := Dir(shared + "/" + name)
		if err == nil || !strings.Contains(err.Error(), "is a "+says+" of user 65534, in a") {
			t.Errorf("%s: %q, %v", name, at, err)
		}
	}
}

func TestADirectoryIsFoundWhereItsPathLeads(t *testing.T) {
	home, shared := t.TempDir(), testkit.SharedDir(t)
	in := func(parts ...string) string { return filepath.Join(append([]string{home}, parts...)...) }
	testkit.Must(t, os.MkdirAll(in("a", "deep"), 0o700))
	testkit.Must(t, os.WriteFile(in("file"), nil, 0o600))
	testkit.Must(t, os.Symlink("a/deep", in("link")))
	testkit.Must(t, os.Symlink("loop", in("loop")))
	testkit.Must(t, os.Symlink(in("link"), filepath.Join(shared, "ours")))
	for name, want := range map[string]string{
		home: home, "/": "/", in("link"): in("a", "deep"), in("none", "x"): in("none", "x"),
		in("link", "x", "y"): in("a", "deep", "x", "y"), home + "/link/..": in("a"),
		filepath.Join(shared, "ours", "x"): in("a", "deep", "x"), in("file"): in("file"),
	} {
		if got, err := Dir(name); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]error{in("loop"): syscall.ELOOP,
		in("file", "x"): syscall.ENOTDIR} {
		if _, err := Dir(name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// Whoever looks once, and makes it all then, makes it where a stranger was faster.
func TestADirectoryIsMadeWhereNoStrangerWasFaster(t *testing.T) {
	victim := t.TempDir()
	for what, come := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(victim, path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o777) },
	} {
		for at, part := range []string{"a", "a/b", "a/b/c"} {
			shared, met := testkit.SharedDir(t), 0
			path := filepath.Join(shared, part)
			_, err := makeDir(filepath.Join(shared, "a/b/c"), true, func(dir string,
				mode fs.FileMode) error {
				if dir == path { // each of ours is shared, too
					testkit.Must(t, come(dir))
					testkit.GiveAway(t, dir)
				}
				met++
				if err := os.Mkdir(dir, mode); err != nil {
					return err
				}
				return os.Chmod(dir, 0o777|fs.ModeSticky)
			})
			if err == nil || !strings.Contains(err.Error(), path+" is a "+what+" of user 65534") {
				t.Errorf("a %s at %s: %v", what, part, err)
			}
			if left, _ := os.ReadDir(path); met != at+1 || len(left) > 0 {
				t.Errorf("a %s at %s: %d made, in it is %v", what, part, met, left)
			}
		}
	}
}

func TestADirectoryIsMadeWithItsParentsOrNone(t *testing.T) {
	home := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{home}, parts...)...) }
	testkit.Must(t, os.Mkdir(in("deep"), 0o700))
	testkit.Must(t, os.Symlink("deep", in("link")))
	if _, err := MakeDir(in("link", "a", "b"), false); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "make its parent") {
		t.Errorf("without its parent: %v", err)
	}
	if left, err := os.ReadDir(in("deep")); err != nil || len(left) > 0 {
		t.Errorf("made all the same: %v, %v", left, err)
	}
	// another process is faster, at each of them
	p, err := makeDir(in("link", "a", "b"), true, func(dir string, mode fs.FileMode) error {
		testkit.Must(t, os.Mkdir(dir, mode))
		return os.Mkdir(dir, mode)
	})
	want := []string{in("deep", "a"), in("deep", "a", "b")}
	if err != nil || p.At != want[1] || !slices.Equal(p.Made, want) || !p.Was.IsDir() ||
		p.Was.Mode().Perm() != 0o700 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := MakeDir(want[1], false); err != nil || p.At != want[1] || len(p.Made) > 0 {
		t.Errorf("it is there: %+v, %v", p, err)
	}
	// somebody makes one and takes it away all the time
	if _, err := makeDir(in("new"), false, func(string, fs.FileMode) error {
		return syscall.EEXIST
	}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("nobody ever has it: %v", err)
	}
}

func TestADirectoryStaysOpenWhateverComesInItsPlace(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "dir")
	opened := func() *os.File {
		t.Helper()
		f, err := OpenDir(dir)
		testkit.Must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	first := opened() // and made
	testkit.Must(t, os.Rename(dir, dir+"2"))
	testkit.Must(t, os.Symlink("dir3", dir)) // ours
	second := opened()
	at := func(f *os.File, name string) bool {
		info, err := os.Lstat(filepath.Join(home, name))
		return err == nil && same(f, info)
	}
	if !at(first, "dir2") || !at(second, "dir3") {
		t.Error("what is opened is another one")
	}
	testkit.Must(t, os.Remove(dir))
	testkit.Must(t, os.WriteFile(dir, nil, 0o600))
	if f, err := OpenDir(dir); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file: %v, %v", f, err)
	}
}
