//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
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

// dig asks Consul's DNS, and answers as `dig +short NAME [SRV] | sort` does; nothing where there is
// no such name.
func dig(t *testing.T, server, name string, srv bool) string {
	t.Helper()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (
		net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var lines []string
	var err error
	if srv {
		var all []*net.SRV
		_, all, err = r.LookupSRV(ctx, "", "", name+".")
		for _, a := range all {
			lines = append(lines, fmt.Sprintf("%d %d %d %s", a.Priority, a.Weight, a.Port,
				a.Target))
		}
	} else {
		var all []net.IP
		all, err = r.LookupIP(ctx, "ip4", name+".")
		for _, ip := range all {
			lines = append(lines, ip.String())
		}
	}
	if e, ok := err.(*net.DNSError); err != nil && !(ok && e.IsNotFound) {
		return err.Error()
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// fetch asks Consul's HTTP API.
func fetch(t *testing.T, consul, path string, into any) {
	t.Helper()
	resp, err := http.Get("http://" + consul + path)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v: %s", path, resp.Status, err, body)
	}
}

// The output of a check has a time and what is left of a lease: any will do.
var (
	aTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	aRest = regexp.MustCompile(`has \d+s left`)
)

func timeless(text string) string {
	return aRest.ReplaceAllString(aTime.ReplaceAllString(text, "TIME"), "has REST left")
}

// In Consul's DNS and in its page a service is found as docs/operators.md shows, its leader by a
// tag that moves with the leadership. No change of a tag costs a session.
func TestConsulShowsAServiceAsTheDocumentsSay(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{DNS: true})
	s, dns := newService(t, consul.Addr()), consul.Servers[0].DNSAddr()
	s.name = "demo"
	for i, id := range []string{"n1", "n2", "n3"} {
		s.start(id, "--address", fmt.Sprintf("10.0.0.%d:9000", i+1), "--zone", "rack-"+id, "--ttl",
			"20s")
		testkit.Await(t, startLimit, id+" is there, and n1 leads", func() string {
			if st := s.now(); len(st.Members) != i+1 || st.Leader == nil || st.Leader.ID != "n1" {
				return fmt.Sprintf("%+v", st)
			}
			return ""
		})
	}
	s.share(9)
	awaitDNS := func(what string, want func(got string) bool, name string) {
		t.Helper()
		testkit.Await(t, workLimit, what, func() string {
			if got := dig(t, dns, name, false); !want(got) {
				return testkit.Instead(got)
			}
			return ""
		})
	}
	is := func(want string) func(string) bool {
		return func(got string) bool { return got == want }
	}
	awaitDNS("all in DNS", is("10.0.0.1\n10.0.0.2\n10.0.0.3"), "demo.service.consul")
	awaitDNS("the leader in DNS", is("10.0.0.1"), "leader.demo.service.consul")

	testkit.Await(t, workLimit, "the report of a leader with its share", func() string {
		if out := outputOf(t, consul.Addr(), "n1"); !strings.Contains(out, " 3 items run") {
			return testkit.Instead(out)
		}
		return ""
	})
	asDocumented(t, [][2]string{
		{"dig +short demo.service.consul | sort", dig(t, dns, "demo.service.consul", false)},
		{"dig +short leader.demo.service.consul SRV", dig(t, dns, "leader.demo.service.consul",
			true)},
		{"dig +short 0a000001.addr.dc1.consul", dig(t, dns, "0a000001.addr.dc1.consul", false)},
		{"consul catalog services -tags", consulCommand(t, consul, "catalog", "services", "-tags")},
		{"curl -s localhost:8500/v1/internal/ui/services | jq -c '.[] | select(.Name == \"demo\")" +
			" | {Name, Tags, InstanceCount, ChecksPassing}'", inThePage(t, consul.Addr())},
		{"curl -s localhost:8500/v1/agent/checks | jq -r '.[].Output'",
			outputOf(t, consul.Addr(), "n1")},
	})
	for _, i := range instances(t, consul.Addr()) {
		id := i.Service.Meta["coordd-member"]
		if i.Service.Meta["zone"] != "rack-"+id || i.Service.Meta["version"] == "" ||
			i.Service.Port != 9000 {
			t.Errorf("the instance of %s: %+v", id, i.Service)
		}
	}
	addressesInDNS(t, consul)
	s.members["n1"].signal(syscall.SIGTERM)
	another := func(got string) bool { return got == "10.0.0.2" || got == "10.0.0.3" }
	awaitDNS("another leader in DNS", another, "leader.demo.service.consul")
	awaitDNS("n1 is gone", is("10.0.0.2\n10.0.0.3"), "demo.service.consul")
	leader := s.now().Leader.ID
	s.members[leader].signal(syscall.SIGKILL)
	left := map[string]string{"n2": "10.0.0.3", "n3": "10.0.0.2"}[leader]
	awaitDNS("the last one in DNS", is(left), "leader.demo.service.consul")
	awaitDNS("the killed one is gone", is(left), "demo.service.consul")
	for _, word := range []string{"session-lost", "no-check"} {
		if s.said(word) > 0 {
			t.Errorf("a member said %s", word)
		}
	}
}

// addressesInDNS holds what docs/operators.md says of the forms of --address, as the agent is told
// them (see TestWhateverAMembersSettingsSayItHasAnInstance in actors).
func addressesInDNS(t *testing.T, consul *realconsul.Cluster) {
	t.Helper()
	for _, c := range []struct {
		address string
		port    int
		target  string
	}{
		{"10.0.0.7", 9000, "1 1 9000 0a000007.addr.dc1.consul."},
		{"n1.example", 9000, "1 1 9000 n1.example."},
		{"10.0.0.7", 0, "1 1 0 0a000007.addr.dc1.consul."},
		{"", 0, "1 1 0 coordd-1.node.dc1.consul."},
		{"", 9000, "1 1 9000 coordd-1.node.dc1.consul."},
	} {
		if err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
			Name: "addressed", Address: c.address, Port: c.port}); err != nil {
			t.Fatal(err)
		}
		testkit.Await(t, workLimit, fmt.Sprintf("SRV of %q, port %d", c.address, c.port),
			func() string {
				got := dig(t, consul.Servers[0].DNSAddr(), "addressed.service.consul", true)
				if got != c.target {
					return testkit.Instead(got)
				}
				return ""
			})
	}
}

// asDocumented compares commands and what they print with the block in docs/operators.md.
func asDocumented(t *testing.T, session [][2]string) {
	t.Helper()
	var got strings.Builder
	for _, c := range session {
		fmt.Fprintf(&got, "$ %s\n%s\n", c[0], strings.TrimRight(c[1], "\n"))
	}
	text, err := os.ReadFile("../../docs/operators.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "## In Consul\n")
	_, rest, _ = strings.Cut(rest, "```console\n")
	block, _, _ := strings.Cut(rest, "```\n")
	if timeless(block) != timeless(got.String()) {
		t.Errorf("docs/operators.md shows, below In Consul:\n%s\nand it is:\n%s", block,
			got.String())
	}
}

// consulCommand runs Consul's own command, without the spaces that it fills its columns with.
func consulCommand(t *testing.T, c *realconsul.Cluster, args ...string) string {
	t.Helper()
	args = append(args, "-http-addr="+c.Addr())
	out, err := exec.CommandContext(t.Context(), realconsul.Binary(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("consul %v: %v: %s", args, err, out)
	}
	lines := strings.Split(string(out), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// inThePage is what the page of Consul lists services from.
func inThePage(t *testing.T, consul string) string {
	t.Helper()
	var all []struct {
		Name                         string
		Tags                         []string
		InstanceCount, ChecksPassing int
	}
	fetch(t, consul, "/v1/internal/ui/services", &all)
	for _, one := range all {
		if one.Name == "demo" {
			line, _ := json.Marshal(one)
			return string(line)
		}
	}
	return "none"
}

type instance struct {
	Service struct {
		ID   string
		Meta map[string]string
		Port int
	}
}

func instances(t *testing.T, consul string) (all []instance) {
	t.Helper()
	fetch(t, consul, "/v1/health/service/demo?passing", &all)
	return all
}

// outputOf is what is shown beside a member's check, at its agent.
func outputOf(t *testing.T, consul, id string) string {
	t.Helper()
	var checks map[string]struct{ Output string }
	fetch(t, consul, "/v1/agent/checks", &checks)
	for _, i := range instances(t, consul) {
		if i.Service.Meta["coordd-member"] == id {
			return checks["service:"+i.Service.ID].Output
		}
	}
	return "none"
}
