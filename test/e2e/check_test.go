//go:build linux

package e2e_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// A member is an instance of the service at its Consul agent while it runs. What happens to the
// agent costs it neither its session nor its check, if the agent is back within the check's TTL.
func TestAnAgentThatReloadsOrComesBackInTimeCostsNobodyASession(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{})
	s := newService(t, consul.Addr())
	s.exec = ""
	// Long, for an agent that is started on a busy machine.
	flags := []string{"--ttl", "4m", "--check-ttl", "2m"}
	instances := func() (ids []string) {
		services, err := consul.Client().Agent().Services()
		if err != nil {
			return []string{err.Error()}
		}
		for _, i := range services {
			if i.Service == s.name {
				ids = append(ids, i.Meta["coordd-member"])
			}
		}
		slices.Sort(ids)
		return ids
	}
	for _, id := range []string{"n1", "n2"} {
		s.start(id, flags...)
	}
	testkit.Await(t, startLimit, "two members with checks that pass", func() string {
		passing, _, err := consul.Client().Health().Service(s.name, "", true, nil)
		if err != nil || len(passing) != 2 {
			return testkit.Instead(strings.Join(instances(), " "))
		}
		return ""
	})
	reload := exec.CommandContext(t.Context(), realconsul.Binary(t), "reload", "-http-addr="+
		consul.Addr())
	if out, err := reload.CombinedOutput(); err != nil {
		t.Fatalf("reload: %v: %s", err, out)
	}
	server := consul.Servers[0]
	for _, end := range []func() error{server.Kill, server.Stop} {
		must(t, end())
		must(t, server.Start())
		ready, cancel := context.WithTimeout(t.Context(), time.Minute)
		must(t, server.WaitReady(ready))
		cancel()
		testkit.Await(t, workLimit, "both know their sessions", func() string {
			return s.now().unlike(2, 0)
		})
	}
	s.importItems(4)
	testkit.Await(t, workLimit, "every member has its share", func() string {
		return s.now().unlike(2, 4)
	})
	if got := instances(); !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("the agent shows the instances %q", got)
	}
	for _, word := range []string{"session-lost", "no-check"} {
		if s.said(word) > 0 {
			t.Errorf("a member said %s", word)
		}
	}
	for _, id := range s.others() {
		p := s.members[id]
		p.signal(syscall.SIGTERM)
		if code, _ := p.ends(workLimit); code != 0 {
			t.Errorf("%s ended with %d", id, code)
		}
	}
	if got := instances(); len(got) > 0 {
		t.Errorf("after a clean stop the agent shows the instances %q", got)
	}
}
