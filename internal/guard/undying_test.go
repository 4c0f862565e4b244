//go:build linux

package guard_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
)

// As one of which a thread waits for a disk, or that its cgroup keeps frozen: what it has started
// is killed beside it.
func TestTheWorkOfAGuardThatDoesNotDieEndsWithTheLease(t *testing.T) {
	confined(t, theWorkOfAGuardThatDoesNotDieEndsWithTheLease)
}

func theWorkOfAGuardThatDoesNotDieEndsWithTheLease(t *testing.T, cfg guard.Config) {
	f := &fixture{t: t, g: guard.New(cfg), dir: t.TempDir()}
	f.g.Undying()
	ran := f.run(t.Context())
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: lineage(f.path("pids"), "")})
	all := lineagePIDs(t, f.path("pids"))
	guardPID := parent(t, all[0])
	must(t, syscall.Kill(guardPID, syscall.SIGSTOP))
	t.Cleanup(func() {
		_ = syscall.Kill(guardPID, syscall.SIGKILL)
		testkit.Eventually(t, "its end", func() bool { return state(guardPID) == 0 })
	})
	until := time.Now().Add(10 * time.Second)
	f.g.Lease("s1", until, 36*time.Second) // its work is late 6.75 s before
	testkit.Eventually(t, "the end of all", func() bool {
		return !slices.ContainsFunc(all, running)
	})
	if late := time.Since(until); late > 0 {
		t.Errorf("it ended %v after the lease", late)
	}
	select {
	case err := <-ended:
		t.Errorf("Exec has returned %v beside a guard process that has its lock", err)
	case <-time.After(100 * time.Millisecond):
	}
	must(t, syscall.Kill(guardPID, syscall.SIGKILL))
	for what, c := range map[string]<-chan error{"Exec": ended, "Run": ran} {
		if err := within(t, "the end of "+what, c); !errors.Is(err, guard.ErrLost) ||
			errors.Is(err, guard.ErrStuck) {
			t.Errorf("%s: got %v, want %v", what, err, guard.ErrLost)
		}
	}
}
