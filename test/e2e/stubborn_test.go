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
// there: it knows nothing. With the same directory it sees the commands end.
func TestASuccessorInAnotherDirectoryWaitsForTheLeaseOfItsPredecessorsCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		other bool
		// of the same: long, so that a slow start is told from a lease that was waited for
		ttl time.Duration
	}{{"another", true, ttl}, {"the same", false, 6 * ttl}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, realconsul.Shared(t).Addr())
			dir := workDir(t)
			s.exec, s.env = stubborn, []string{"E2E_DIR=" + dir, "RUNTIME_DIRECTORY=",
				"XDG_RUNTIME_DIR=", "TMPDIR=" + t.TempDir()}
			log := func(word string) int {
				return strings.Count("\n"+contents(filepath.Join(dir, "log")), "\n"+word+" ")
			}
			began := func(n int) {
				t.Helper()
				testkit.Await(t, workLimit, fmt.Sprintf("%d commands have begun", n),
					func() string {
						if m := log("begin"); m < n {
							return fmt.Sprintf("%d", m)
						}
						return ""
					})
			}
			must(t, os.WriteFile(filepath.Join(dir, "log"), nil, 0o600))
			flags := append(slices.Clone(patient), "--stop-timeout", "5s", "--ttl", c.ttl.String())
			s.start("n1", flags...)
			testkit.Await(t, startLimit, "a leader", func() string { return s.now().unlike(1, 0) })
			s.importItems(5)
			began(5)
			s.members["n1"].Kill()
			begin := time.Now()
			if c.other {
				s.env = []string{"E2E_DIR=" + dir, "RUNTIME_DIRECTORY=", "XDG_RUNTIME_DIR=",
					"TMPDIR=" + t.TempDir()}
			}
			s.start("n1", flags...)
			began(10)
			took := time.Since(begin)
			if n := log("overlap"); n > 0 {
				t.Errorf("%d of 5 items ran twice at once, %v after the kill\n%s", n, took,
					tail(s.members["n1"].stderr(), 10))
			}
			if !c.other && took > c.ttl {
				t.Errorf("they ran again after %v, although the end of the predecessor's "+
					"commands was seen",
					took)
			}
			t.Logf("kill -9 and start again: the items ran again after %v",
				took.Round(time.Millisecond))
		})
	}
}
