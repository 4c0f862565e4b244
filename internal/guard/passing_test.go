//go:build linux

package guard_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/guard"
)

// passing makes this a host on which processes begin and end all the time: a look at all of them
// misses some, each time.
func passing(t *testing.T) {
	t.Helper()
	for range 12 {
		loop := exec.Command("nice", "-n", "19", "/bin/sh", "-c", "while :; do /bin/true; done")
		must(t, loop.Start())
		t.Cleanup(func() {
			_ = loop.Process.Kill()
			_ = loop.Wait()
		})
	}
}

// Whoever adopts orphans knows by its children that nothing is left. Others look long enough.
func TestTheEndOfADeadGuardsWorkIsSeenWhereOthersProcessesPassBy(t *testing.T) {
	deadGuardsWorkEnds(t, passing)
}

// deadGuardsWorkEnds kills a guard process beside what disturb starts. Its owner has to say so, and
// nothing of its work may be left.
func deadGuardsWorkEnds(t *testing.T, disturb func(t *testing.T)) {
	for name, adopt := range map[string]string{"adopted": "1", "not adopted": ""} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(noCgroupsEnv, "1")
			t.Setenv(adoptEnv, adopt)
			file := filepath.Join(t.TempDir(), "pids")
			o := startOwner(t, family(file, ""))
			all := pids(t, file, 3)
			disturb(t)
			must(t, syscall.Kill(parent(t, all[0]), syscall.SIGKILL))
			said := make(chan string, 1)
			go func() {
				line, _ := o.out.ReadString('\n')
				said <- line
			}()
			if line := within(t, "the end", said); !strings.Contains(line, string(guard.Lost)) {
				t.Errorf("the owner says %q", line)
			}
			wantGone(t, all...)
		})
	}
}

func TestALockIsHadWhereOthersProcessesPassBy(t *testing.T) {
	passing(t)
	f, _ := locking(t, filepath.Join(t.TempDir(), "lock"))
	f.locked()
}
