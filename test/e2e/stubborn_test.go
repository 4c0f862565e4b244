//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// stubborn is work that only SIGKILL ends. The kernel's lock on a file of its item shows two at
// once, whoever they are.
const stubborn = `
trap '' TERM
exec 9>>"$E2E_DIR/lock-$COORDD_ITEM"
flock -n 9 || echo "overlap $COORDD_ITEM $COORDD_TOKEN" >>"$E2E_DIR/log"
echo "begin $COORDD_ITEM $COORDD_TOKEN" >>"$E2E_DIR/log"
while :; do read -r never; done <>"$E2E_HOLD"
`

// A successor that looks for its predecessor's lock in another directory does not find it free
// there: it knows nothing.
func TestASuccessorInAnotherDirectoryWaitsForTheLeaseOfItsPredecessorsCommands(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	dir := workDir(t)
	// Each has a directory for temporary files of its own.
	start := func() {
		s.env = []string{"E2E_DIR=" + dir, "RUNTIME_DIRECTORY=", "XDG_RUNTIME_DIR=",
			"TMPDIR=" + t.TempDir()}
		s.start("n1", append(slices.Clone(patient), "--stop-timeout", "5s")...)
	}
	log := func(word string) int {
		return strings.Count("\n"+contents(filepath.Join(dir, "log")), "\n"+word+" ")
	}
	began := func(n int) {
		t.Helper()
		testkit.Await(t, workLimit, fmt.Sprintf("%d commands have begun", n), func() string {
			if m := log("begin"); m < n {
				return fmt.Sprintf("%d", m)
			}
			return ""
		})
	}
	must(t, os.WriteFile(filepath.Join(dir, "log"), nil, 0o600))
	s.exec = stubborn
	start()
	testkit.Await(t, startLimit, "a leader", func() string { return s.now().unlike(1, 0) })
	s.importItems(5)
	began(5)
	s.members["n1"].Kill()
	begin := time.Now()
	start()
	began(10)
	took := time.Since(begin).Round(time.Millisecond)
	if n := log("overlap"); n > 0 {
		t.Errorf("%d of 5 items ran twice at once, %v after the kill\n%s", n, took,
			tail(s.members["n1"].stderr(), 10))
	}
	t.Logf("kill -9 and start again: the items ran again after %v", took)
}
