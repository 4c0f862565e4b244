//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// A token that is replaced in its file ten seconds before it is deleted costs no work, no
// leadership and no check. Neither does a file that is empty, or half written, in between.
func TestATokenThatIsRenewedInItsFileCostsNothing(t *testing.T) {
	t.Parallel()
	cluster := realconsul.Start(t, realconsul.Options{ACL: true})
	acl := cluster.Client().ACL()
	_, err := cluster.Client().Agent().UpdateAgentACLToken(token(t, cluster, "agent",
		`node_prefix "" { policy = "write" }`), nil)
	must(t, err)
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "all",
		Rules: `key_prefix "" { policy = "write" } service_prefix "" { policy = "write" }
			session_prefix "" { policy = "write" } node_prefix "" { policy = "read" }`}, nil)
	must(t, err)
	newToken := func() *api.ACLToken {
		made, _, err := acl.TokenCreate(&api.ACLToken{
			Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
		must(t, err)
		return made
	}
	dir := workDir(t)
	file := filepath.Join(dir, "token")
	now := newToken()
	must(t, os.WriteFile(file, []byte(now.SecretID+"\n"), 0o600))
	env := []string{"CONSUL_HTTP_ADDR=" + cluster.Addr(), "CONSUL_HTTP_TOKEN_FILE=" + file,
		"E2E_DIR=" + dir}
	start := func(args ...string) *program { return launch(t, env, args...) }
	const work = `echo $COORDD_ITEM$COORDD_ELECTION >> "$E2E_DIR/starts"; exec sleep 1000`
	n1 := start("run", "--service", "jobs", "--id", "r1", "--exec", work)
	n2 := start("run", "--service", "jobs", "--id", "r2", "--exec", work)
	n3 := start("run", "--service", "jobs", "--id", "r3", "--check-ttl", "4s")
	e1 := start("elect", "report", "--id", "e1", work)
	testkit.Await(t, startLimit, "all members are there, so that no item moves to one", func() string {
		for _, p := range []*program{n1, n2, n3} {
			if !strings.Contains(p.stderr(), "msg=registered") {
				return p.what + tail(p.stderr(), 5)
			}
		}
		return ""
	})
	add := start("work", "add", "--service", "jobs", "a", "b", "c", "d")
	if code, _ := add.ends(workLimit); code != 0 {
		t.Fatal(add.stderr())
	}
	starts := func() int { return strings.Count(contents(filepath.Join(dir, "starts")), "\n") }
	testkit.Await(t, startLimit, "all run", func() string {
		if n := starts(); n != 5 {
			return fmt.Sprintf("%d commands were started%s", n, tail(n1.stderr(), 5))
		}
		return ""
	})
	for range 2 {
		must(t, os.WriteFile(file, nil, 0o600))
		time.Sleep(1500 * time.Millisecond)
		next := newToken()
		must(t, os.WriteFile(file, []byte(next.SecretID[:10]), 0o600))
		time.Sleep(1500 * time.Millisecond)
		must(t, os.WriteFile(file, []byte(next.SecretID), 0o600))
		time.Sleep(10 * time.Second)
		_, err := acl.TokenDelete(now.AccessorID, nil)
		must(t, err)
		now = next
		time.Sleep(15 * time.Second) // longer than a session lives that nobody may renew
	}
	if n := starts(); n != 5 {
		t.Errorf("%d starts of 5 commands", n)
	}
	for _, p := range []*program{n1, n2, e1} {
		text := p.stderr()
		if !p.Running() || strings.Contains(text, "consul-denied") ||
			strings.Count(text, "file-renewed") < 2 || strings.Count(text, "session-opened") > 1 ||
			strings.Contains(text, now.SecretID) {
			t.Errorf("%s:%s", p.what, tail(text, 20))
		}
	}
	// A poll of before the renewal is a minute old at the most.
	more := start("work", "add", "--service", "jobs", "e")
	if code, _ := more.ends(workLimit); code != 0 {
		t.Fatal(more.stderr())
	}
	testkit.Await(t, workLimit, "one more item runs", func() string {
		if n := starts(); n != 6 {
			return fmt.Sprintf("%d commands were started%s", n, tail(n1.stderr(), 5))
		}
		return ""
	})
	// The agent writes a check into the catalog with the token that it was registered with.
	n3.signal(syscall.SIGKILL)
	testkit.Await(t, workLimit, "the check of a dead member is critical in the catalog",
		func() string {
			checks, _, err := cluster.Client().Health().Checks("jobs", nil)
			for _, c := range checks {
				if strings.Contains(c.ServiceID, "r3") && c.Status == api.HealthCritical {
					return ""
				}
			}
			return fmt.Sprintf("%d checks, none of r3 is critical: %v", len(checks), err)
		})
}
