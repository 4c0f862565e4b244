//go:build linux && coordd_long

package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// A Consul whose session_ttl_min is lower than its default of 10 s takes a shorter TTL, and so do
// members and elections. Then a member without a check is noticed sooner, too.
func TestATTLBelowConsulsDefaultFloorIsTakenWhereConsulTakesIt(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{
		Config: map[string]any{"session_ttl_min": "2s"}})
	s := newService(t, consul.Addr())
	s.exec = ""
	// Long enough for renewals on a busy machine.
	flags := []string{"--ttl", "8s", "--check-ttl", "none"}
	s.start("n1", flags...)
	s.start("n2", flags...)
	items := s.importItems(4)
	testkit.Await(t, workLimit, "every member has its share", func() string {
		return s.now().unlike(2, len(items))
	})
	sessions, _, err := consul.Client().Session().List(nil)
	if err != nil || len(sessions) != 2 || sessions[0].TTL != "8s" || sessions[1].TTL != "8s" {
		t.Errorf("sessions: %+v, %v", sessions, err)
	}
	lost := s.follower()
	begin := time.Now()
	s.members[lost].signal(syscall.SIGKILL)
	testkit.Await(t, workLimit, "the other one has all", func() string {
		return s.now().unlike(1, len(items))
	})
	t.Logf("taken over after %v",
		time.Since(begin).Round(10*time.Millisecond))
	elected := launch(t, nil, "elect", "job", "--consul", consul.Addr(), "--ttl", "8s", "--",
		"true")
	if code, _ := elected.ends(workLimit); code != 0 {
		t.Errorf("an election: exit code %d: %s", code, elected.stderr())
	}

	elsewhere := realconsul.Shared(t).Addr()
	for _, args := range []string{"run --id n1 --hold-items", "elect --once job true"} {
		command, rest, _ := strings.Cut(args, " ")
		p := launch(t, nil, append([]string{command, "--consul", elsewhere, "--ttl", "8s"},
			strings.Fields(rest)...)...)
		code, _ := p.ends(workLimit)
		if out := p.stderr(); code != 2 || !strings.Contains(out, "10s=24h0m0s") ||
			!strings.Contains(out, "session_ttl_min") {
			t.Errorf("coordd %s: exit code %d: %s", args, code, out)
		}
	}
}
