//go:build linux

package guard

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// undyingWatch is that of a guard process that has left something in its cgroup which does not die,
// and of which it is not known whose it is, with so many commands that it may be of.
func undyingWatch(t *testing.T, commands int) *watch {
	t.Helper()
	w := deadWatch(t)
	w.cgroup = t.TempDir()
	if err := os.WriteFile(filepath.Join(w.cgroup, "cgroup.events"), []byte("populated 1\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for range commands {
		w.l.start(command{Kind: cmdStart}, w.g.lease).told = 1
	}
	return w
}

// The time counts in which it could look, and need not be in one piece.
func TestWhoCannotLookNowAndThenGivesUp(t *testing.T) {
	w := undyingWatch(t, 2)
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		go func() { ended <- w.clearAway() }()
		for range 6 {
			time.Sleep(stuckAfter / 3)
			see := Unseeing(t)
			time.Sleep(leftCheck + leftCheck/10)
			see()
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Error("it says that nothing is left")
			}
		default:
			t.Error("it has not given up when it could look for twice as long as it may wait")
			_ = os.RemoveAll(w.cgroup)
			<-ended
		}
	})
}
