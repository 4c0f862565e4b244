//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// summarised waits until a member has said that so many items run there, and nothing else.
func (s *service) summarised(kv *api.KV, member string, running int) {
	s.t.Helper()
	testkit.Await(s.t, workLimit, "the summary of "+member, func() string {
		e, _, err := kv.Get("service/"+s.name+"/states/"+member, nil)
		if err != nil || e == nil {
			return fmt.Sprint("none: ", err)
		}
		if w, err := protocol.ParseWorkSummary(e.Value); err != nil || len(w.Counts) != 1 ||
			w.Counts[protocol.WorkRunning] != running {
			return fmt.Sprint(string(e.Value), err)
		}
		return ""
	})
}

// loops is work of which one item ends at once, until it is mended.
const loops = `case "$COORDD_ITEM $(cat)" in "bad broken") exit 3 ;; esac
trap 'exit' TERM
while :; do read -r never; done <>"$E2E_HOLD"
`

func TestStatusSaysWhichCommandLoopsAndWhenALostMembersItemsAreTakenOver(t *testing.T) {
	t.Parallel()
	s := newService(t, realconsul.Shared(t).Addr())
	s.exec = loops
	s.startThree(notHandedOver...)
	s.do("work", "add", "good_1", "good_2")
	s.do("work", "add", "bad", "--payload", "broken")
	says := func(want string) {
		t.Helper()
		testkit.Await(t, workLimit, want, func() string {
			if got, code := s.ask("status", "--check"); got != want+"\n" ||
				code == 0 != (want == "ok") {
				return fmt.Sprintf("%q, with code %d", got, code)
			}
			return ""
		})
	}
	says("1 item loops: bad; coordd explain bad")
	if got := s.do("explain", "bad"); !strings.Contains(got, "exit code 3") {
		t.Errorf("explain says\n%s", got)
	}
	// A member says within two seconds that its item runs.
	testkit.Await(t, workLimit, "both good items run, and the bad one does not", func() string {
		got := s.do("items", "--state", "running")
		if strings.Count(got, "good_") != 2 || strings.Contains(got, "bad") {
			return testkit.Instead(got)
		}
		return ""
	})
	s.do("work", "add", "bad", "--payload", "mended")
	says("ok")

	// A machine is lost: nobody speaks for its member.
	lost := s.follower()
	s.members[lost].Kill()
	testkit.Await(t, workLimit, "its items wait, and until when is said", func() string {
		got, _ := s.ask("status", "--check")
		if !strings.HasPrefix(got, "1 item waits (") || !strings.Contains(got, lost+" is gone") ||
			!strings.Contains(got, " UTC at the latest") {
			return testkit.Instead(got)
		}
		return ""
	})
	if got, _ := s.ask("status"); !strings.Contains(got, "1 waiting") {
		t.Errorf("status says\n%s", got)
	}
	says("ok")
}
