//go:build unix

package place_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/place"
	"github.com/coordd/coordd/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must

func TestAPrivateDirectoryIsMadeAndFoundAgain(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")))
	for range 2 {
		at, err := place.Private(filepath.Join(dir, "real"))
		if err != nil || at != filepath.Join(dir, "real") {
			t.Fatalf("%q, %v", at, err)
		}
	}
	if at, err := place.Private(filepath.Join(dir, "link")); at != filepath.Join(dir, "real") {
		t.Errorf("behind a link: %q, %v", at, err)
	}
	info, err := os.Stat(filepath.Join(dir, "real"))
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

func TestADirectoryThatOthersCouldWriteToIsRefused(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "open"), 0o700))
	must(t, os.Chmod(filepath.Join(dir, "open"), 0o777))
	wants := map[string]string{"file": "no directory", "open": "chmod go-w",
		"none/dir": "make its parent"}
	if os.Geteuid() == 0 { // who else may give a directory away
		must(t, os.Mkdir(filepath.Join(dir, "another's"), 0o700))
		must(t, os.Chown(filepath.Join(dir, "another's"), 65534, 65534))
		wants["another's"] = "belongs to user 65534"
		must(t, os.Mkdir(filepath.Join(dir, "own"), 0o700))
		must(t, os.Symlink("own", filepath.Join(dir, "their link")))
		must(t, os.Lchown(filepath.Join(dir, "their link"), 65534, 65534))
		wants["their link"] = "their link is a link of user 65534"
	}
	for name, want := range wants {
		if _, err := place.Private(filepath.Join(dir, name)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
