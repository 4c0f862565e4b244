//go:build unix

package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// Nobody is a user that is neither root nor the one who runs the tests.
const Nobody = 65534

// SharedDir returns a directory of this user's that is shared as /tmp is. What [GiveAway] gives to
// another user there is not to be trusted.
func SharedDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// GiveAway makes what is at path, if only a link, that of [Nobody]. Who is not root cannot: then
// the test is skipped.
func GiveAway(t testing.TB, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	if err := os.Lchown(path, Nobody, Nobody); err != nil {
		t.Fatal(err)
	}
}

// StrangersLink returns the path of another user's link to target, in a [SharedDir].
func StrangersLink(t testing.TB, target string) string {
	t.Helper()
	link := filepath.Join(SharedDir(t), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	GiveAway(t, link)
	return link
}
