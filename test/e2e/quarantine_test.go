//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// fails is work that ends at once where a file says so: at one member, or of one item.
const fails = `test -e "$E2E_DIR/$COORDD_ITEM" && exit 4
test -e "$E2E_DIR/$COORDD_MEMBER" && exit 3
trap 'exit' TERM
while :; do read -r never; done <>"$E2E_HOLD"
`

func TestACommandThatFailsAtOneHostRunsElsewhereAndOneThatFailsEverywhereNowhere(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	dir := workDir(t)
	s.exec, s.env = fails, []string{"E2E_DIR=" + dir}
	for _, name := range []string{"n2", "bad"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	until := func(what string, args []string, parts ...string) {
		t.Helper()
		testkit.Await(t, workLimit, what, func() string {
			got, _ := s.ask(args...)
			for _, part := range parts {
				if !strings.Contains(got, part) {
					return fmt.Sprintf("no %q in\n%s", part, got)
				}
			}
			return ""
		})
	}
	s.startThree("--max-restarts", "2", "--leader-soak", "1s")
	s.do("work", "add", "w1", "w2", "w3", "w4", "w5", "bad")
	// w1 to w5 run at n1 and n3, and bad nowhere.
	until("bad is quarantined", []string{"items", "bad"}, "quarantined", "exit code 4")
	until("the others run", []string{"status"}, "6 items: 5 running, 1 quarantined")
	until("n2 has none", []string{"items", "--member", "n2"}, "No items.")
	if got, code := s.ask("status", "--check"); code != 1 ||
		!strings.Contains(got, "1 item is quarantined: bad") {
		t.Errorf("wrong is %q, with code %d", got, code)
	}
	// The leader dies: its successor knows.
	s.members[s.now().Leader.ID].Kill()
	until("the others run again", []string{"status"}, "5 running, 1 quarantined")
	must(t, os.Remove(filepath.Join(dir, "bad")))
	s.do("restart", "bad")
	until("all run", []string{"status"}, "6 items: 6 running")
	until("what happened is told", []string{"events", "bad"}, "bad quarantined: its work failed "+
		"too often", "bad no longer quarantined, by an order to restart")
}
