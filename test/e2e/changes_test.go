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

// notes is work that is slow to stop, and writes down when it begins and ends, with its token and
// its payload.
const notes = `read -r payload
echo "begins $payload $COORDD_TOKEN" >>"$E2E_DIR/$COORDD_ITEM"
trap 'sleep 1; echo "ends $payload $COORDD_TOKEN" >>"$E2E_DIR/$COORDD_ITEM"; exit' TERM
while :; do read -r never; done <>"$E2E_HOLD"
`

// A changed payload has the command end, however slow that is, before it begins anew with the
// payload of then, under the token that it had; and the others go on.
func TestACommandBeginsAnewWithItsChangedPayload(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	dir := workDir(t)
	s.exec, s.env = notes, []string{"E2E_DIR=" + dir}
	lines := func(item string) []string {
		text, err := os.ReadFile(filepath.Join(dir, item))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
	s.startThree("--on-change", "restart", "--leader-soak", "1s")
	s.do("work", "add", "w1", "w2", "w3", "w4", "w5", "w6", "--payload", "one")
	until := func(what string, ok func() bool) {
		t.Helper()
		testkit.Await(t, workLimit, what, func() string {
			if !ok() {
				status, _ := s.ask("status")
				return fmt.Sprintf("w1 has written %q; %s", lines("w1"), status)
			}
			return ""
		})
	}
	until("all run", func() bool {
		status, _ := s.ask("status")
		return strings.Contains(status, "6 items: 6 running") && len(lines("w1")) == 3
	})
	token := lines("w1")[2]
	s.do("work", "add", "w1", "--payload", "two")
	until("it has begun with the new payload", func() bool { return len(lines("w1")) >= 9 })
	s.do("work", "add", "w1", "--payload", "two", "--weight", "2") // no matter
	s.do("work", "add", "w1", "--payload", "three", "--weight", "2")
	until("it has begun once more", func() bool { return len(lines("w1")) >= 15 })
	want := strings.Fields(fmt.Sprintf("begins one %[1]s ends one %[1]s begins two %[1]s "+
		"ends two %[1]s begins three %[1]s", token))
	if got := lines("w1"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("w1 has written %q; want %q", got, want)
	}
	for _, other := range []string{"w2", "w3", "w4", "w5", "w6"} {
		if got := lines(other); len(got) != 3 {
			t.Errorf("%s has written %q", other, got)
		}
	}
}
