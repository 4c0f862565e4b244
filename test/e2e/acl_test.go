//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// roleRules are the rules in docs/acl.md, by role.
func roleRules(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/acl.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```hcl (\\w+)\n(.*?)```").FindAllStringSubmatch(
		string(text), -1) {
		rules[m[1]] = m[2]
	}
	return rules
}

// token makes a token with these rules.
func token(t *testing.T, cluster *realconsul.Cluster, role, rules string) string {
	t.Helper()
	acl := cluster.Client().ACL()
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: role, Rules: rules}, nil)
	if err != nil {
		t.Fatalf("the rules of a %s: %v", role, err)
	}
	made, _, err := acl.TokenCreate(
		&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made.SecretID
}

// The rules in docs/acl.md are all that each kind of user needs, and what they leave out is denied
// to that user.
func TestTheLeastRightsInConsulSuffice(t *testing.T) {
	t.Parallel()
	cluster := realconsul.Start(t, realconsul.Options{ACL: true})
	// The agent has what it needs for itself, and nothing for the service.
	if _, err := cluster.Client().Agent().UpdateAgentACLToken(token(t, cluster, "agent",
		`node_prefix "" { policy = "write" }`), nil); err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	for role, rules := range roleRules(t) {
		tokens[role] = token(t, cluster, role, rules)
	}
	for _, role := range []string{"member", "operator", "viewer", "elector"} {
		if tokens[role] == "" {
			t.Fatalf("docs/acl.md has no rules of a %s", role)
		}
	}
	start := func(role string, args ...string) *program {
		args = append(args[:1:1], append([]string{"--consul", cluster.Addr()}, args[1:]...)...)
		return launch(t, []string{"CONSUL_HTTP_TOKEN=" + tokens[role], "E2E_DIR=" + scratch},
			args...)
	}
	do := func(role string, args ...string) (string, string, int) {
		p := start(role, args...)
		code, _ := p.ends(time.Minute)
		return p.stdout(), p.stderr(), code
	}
	may := func(role string, args ...string) string {
		t.Helper()
		out, errs, code := do(role, args...)
		if code != 0 || strings.Contains(errs, "denied") {
			t.Errorf("%s: coordd %s: exit code %d: %s", role, strings.Join(args, " "), code, errs)
		}
		return out
	}
	mayNot := func(role string, args ...string) {
		t.Helper()
		if _, errs, code := do(role, args...); code != 1 || !strings.Contains(strings.ToLower(errs),
			"denied") {
			t.Errorf("%s may do this: coordd %s: exit code %d: %s", role, strings.Join(args, " "),
				code, errs)
		}
	}

	// An operator of one service is told that it is new, and nothing of others.
	if _, err := cluster.Client().KV().Put(&api.KVPair{Key: "service/jobz/workload/x"},
		nil); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := do("operator", "work", "add", "--service", "jobs", "first"); code != 0 ||
		!strings.Contains(errs, `"jobs" is new`) || strings.Contains(errs, "other") {
		t.Errorf("the operator's first item: exit code %d: %s", code, errs)
	}
	may("operator", "work", "rm", "--service", "jobs", "first")

	// Without the rule for the service a member has no check, says so, and does its work.
	rules := strings.ReplaceAll(roleRules(t)["member"], `service "jobs"`, `service "other"`)
	tokens["unchecked"] = token(t, cluster, "unchecked", rules)
	unchecked := start("unchecked", "run", "--service", "jobs", "--id", "n0", "--hold-items")
	testkit.Await(t, startLimit, "a member without a check", func() string {
		if errs := unchecked.stderr(); !strings.Contains(errs, "msg=registered") {
			return testkit.Instead(tail(errs, 5))
		}
		return ""
	})
	unchecked.signal(syscall.SIGTERM)
	if code, _ := unchecked.ends(workLimit); code != 0 ||
		!strings.Contains(unchecked.stderr(), "msg=no-check") {
		t.Errorf("a member without the right to a check ended with %d%s", code,
			tail(unchecked.stderr(), 10))
	}

	members := []*program{}
	for _, id := range []string{"n1", "n2"} {
		members = append(members, start("member", "run", "--service", "jobs", "--id", id, "--exec",
			"exec sleep 1000"))
	}
	may("operator", "work", "add", "--service", "jobs", "a", "b", "c", "d")
	owned := func() string {
		out, errs, _ := do("viewer", "status", "--service", "jobs", "--json")
		if !strings.Contains(strings.Join(strings.Fields(out), ""), `"owned":4`) {
			return testkit.Instead(out + errs)
		}
		return ""
	}
	testkit.Await(t, startLimit, "every item has an owner", owned)
	may("viewer", "locate", "--service", "jobs", "a")
	may("viewer", "work", "export", "--service", "jobs")
	testkit.Await(t, workLimit, "the members say that all items run", func() string {
		out, errs, _ := do("viewer", "items", "--service", "jobs", "--state", "running", "--json")
		if strings.Count(out, `"running"`) != 4 {
			return testkit.Instead(out + errs)
		}
		return ""
	})
	may("viewer", "events", "--service", "jobs")
	may("viewer", "explain", "--service", "jobs", "a")
	may("operator", "config", "put", "--service", "jobs", "key", "value")
	if out := may("viewer", "config", "get", "--service", "jobs", "key"); strings.TrimSpace(
		out) != "value" {
		t.Errorf("the viewer reads %q", out)
	}
	for _, args := range [][]string{{"freeze"}, {"thaw"}, {"pin", "a", "n1"}, {"unpin", "a"},
		{"drain", "n1"}} {
		may("operator", append([]string{args[0], "--service", "jobs"}, args[1:]...)...)
	}
	testkit.Await(t, workLimit, "n1 is empty, and n2 has its items", func() string {
		out, errs, _ := do("viewer", "locate", "--service", "jobs", "a")
		if !strings.Contains(out, "n2") {
			return testkit.Instead(out + errs)
		}
		return owned()
	})
	testkit.Await(t, workLimit, "the tags say who leads and who is drained", func() string {
		for _, tag := range []string{"leader", "draining"} {
			found, _, err := cluster.Client().Health().Service("jobs", tag, true, nil)
			if err != nil || len(found) != 1 {
				return fmt.Sprintf("%s: %d instances, %v", tag, len(found), err)
			}
		}
		return ""
	})
	may("operator", "undrain", "--service", "jobs", "n1")
	may("operator", "work", "rm", "--service", "jobs", "d")

	// Since when a member is silent is read from its check.
	tokens["health"] = token(t, cluster, "viewer-health", roleRules(t)["viewer"]+
		roleRules(t)["health"])
	killed := start("member", "run", "--service", "jobs", "--id", "n3", "--hold-items")
	shown := func(role, text string) func() string {
		return func() string {
			out, errs, _ := do(role, "status", "--service", "jobs")
			if !regexp.MustCompile(`(?m)^n3 +` + text).MatchString(out) {
				return testkit.Instead(out + errs)
			}
			return ""
		}
	}
	testkit.Await(t, startLimit, "n3 has an item", shown("viewer", `alive +1 `))
	may("operator", "freeze", "--service", "jobs")
	killed.signal(syscall.SIGKILL)
	testkit.Await(t, workLimit, "n3 is silent", shown("health", `gone.*, silent since \d\d:`))
	if out, _, _ := do("viewer", "status", "--service", "jobs"); strings.Contains(out, "silent") {
		t.Errorf("who may not read the service's health is told\n%s", out)
	}
	may("operator", "thaw", "--service", "jobs")

	e := start("elector", "elect", "report", "--id", "e1", "exec sleep 1000")
	testkit.Await(t, workLimit, "e1 leads", func() string {
		out, errs, _ := do("elector", "elect", "report", "--status")
		if !strings.Contains(out, "leader    e1") {
			return testkit.Instead(out + errs)
		}
		return ""
	})
	may("elector", "elect", "report", "--end")
	if code, _ := e.ends(workLimit); code != 1 || strings.Contains(e.stderr(), "msg=no-check") {
		t.Errorf("e1, whose election was ended, ended with %d%s", code, tail(e.stderr(), 10))
	}
	may("elector", "elect", "report", "--delete")
	tokens["unchecked"] = token(t, cluster, "unchecked-elector",
		strings.ReplaceAll(roleRules(t)["elector"], `service "election"`, `service "other"`))
	u := start("unchecked", "elect", "report", "--id", "e2", "exit 3")
	if code, _ := u.ends(workLimit); code != 3 || !strings.Contains(u.stderr(), "msg=no-check") {
		t.Errorf("a candidate without the right to a check ended with %d%s", code,
			tail(u.stderr(), 10))
	}

	mayNot("viewer", "work", "add", "--service", "jobs", "x")
	mayNot("viewer", "config", "put", "--service", "jobs", "key", "other")
	mayNot("member", "work", "add", "--service", "jobs", "x")
	mayNot("member", "freeze", "--service", "jobs")
	mayNot("elector", "work", "add", "--service", "jobs", "x")
	mayNot("operator", "elect", "report", "--end")
	testkit.Await(t, workLimit, "nothing is left of n3", func() string {
		left, _, err := cluster.Client().KV().Keys("service/jobs/", "", nil)
		left = slices.DeleteFunc(left, func(k string) bool { return !strings.Contains(k, "/n3") })
		if err != nil || len(left) > 0 {
			return fmt.Sprint(left, err)
		}
		return ""
	})
	for i, p := range members {
		p.signal(syscall.SIGTERM)
		if code, _ := p.ends(workLimit); code != 0 {
			t.Errorf("n%d was told to stop and ended with %d%s", i+1, code, tail(p.stderr(), 5))
		}
		if strings.Contains(strings.ToLower(p.stderr()), "denied") {
			t.Errorf("something was denied to n%d: %s", i+1, tail(p.stderr(), 30))
		}
		if strings.Contains(p.stderr(), "msg=no-check") {
			t.Errorf("n%d has no check: %s", i+1, tail(p.stderr(), 30))
		}
	}
	testkit.Await(t, workLimit, "no instance is left but that of the killed one", func() string {
		left, _, err := cluster.Client().Health().Service("jobs", "", false, nil)
		if err != nil || len(left) > 1 || len(left) == 1 &&
			left[0].Service.Meta["coordd-member"] != "n3" {
			return fmt.Sprintf("%d instances, %v", len(left), err)
		}
		return ""
	})
	for _, prefix := range []string{"service/jobs/members/", "service/jobs/assignments/",
		"service/jobs/acks/", "service/jobs/states/"} {
		if left, _, err := cluster.Client().KV().Keys(prefix, "", nil); err != nil ||
			len(left) > 0 {
			t.Errorf("after a clean stop %s", fmt.Sprint(left, err))
		}
	}
}

// Consul does not tell those without a token that it has left keys out of an answer.
func TestWithoutATokenAnElectionIsNeitherFreeNorDeleted(t *testing.T) {
	t.Parallel()
	cluster := realconsul.Start(t, realconsul.Options{ACL: true})
	start := func(token string, args ...string) *program {
		return launch(t, []string{"CONSUL_HTTP_TOKEN=" + token, "E2E_DIR=" + scratch},
			append([]string{"elect", "--consul", cluster.Addr(), "report"}, args...)...)
	}
	e := start(cluster.Token, "--id", "e1", "exec sleep 1000")
	testkit.Await(t, startLimit, "e1 leads", func() string {
		if errs := e.stderr(); !strings.Contains(errs, "became-leader") {
			return testkit.Instead(tail(errs, 5))
		}
		return ""
	})
	for _, order := range []string{"--status", "--delete"} {
		p := start("", order)
		if code, _ := p.ends(time.Minute); code != 1 || !strings.Contains(p.stderr(), "denied") {
			t.Errorf("%s ended with %d: %s%s", order, code, p.stdout(), tail(p.stderr(), 5))
		}
	}
	left, _, err := cluster.Client().KV().Keys("election/report/", "", nil)
	if err != nil || len(left) == 0 {
		t.Errorf("the keys of the election: %v, %v", left, err)
	}
}
