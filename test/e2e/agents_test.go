//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/testkit"

	"github.com/coordd/coordd/test/realconsul"
)

// Members and candidates beside client agents of their own, as on machines that run no server: what
// happens to the agents and to the servers within the check's TTL costs nobody a session, work or a
// leadership.
func TestWhatPassesWithinTheChecksTTLCostsNobodyAnything(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{Servers: 3, Agents: 3})
	s := newService(t, "")
	// Long, for agents that are started on a busy machine.
	for i, id := range []string{"n1", "n2", "n3"} {
		s.consul = consul.Agents[i].Addr()
		s.start(id, "--ttl", "4m", "--check-ttl", "2m")
	}
	testkit.Await(t, startLimit, "three members", func() string { return s.now().unlike(3, 0) })
	items := s.share(12)
	elected := launch(t, nil, "elect", s.name, "--consul", consul.Agents[0].Addr(), "--ttl", "4m",
		"--lease", "1m", "--check-ttl", "50s", "--", "exec sleep 1000")
	testkit.Await(t, startLimit, "it leads", func() string {
		if out := elected.stderr(); !strings.Contains(out, "msg=became-leader") {
			return testkit.Instead(out)
		}
		return ""
	})
	leader, mark := s.now().Leader.ID, s.mark()
	bound, _, err := consul.Client().Session().List(nil)
	if err != nil || len(bound) != 4 {
		t.Errorf("%d sessions, %v", len(bound), err)
	}
	for _, session := range bound {
		if len(session.ServiceChecks) != 1 || !slices.Contains(session.NodeChecks, "serfHealth") {
			t.Errorf("the session %s is bound to %v and %v", session.Name, session.NodeChecks,
				session.ServiceChecks)
		}
	}

	for _, agent := range consul.Agents {
		reload := exec.CommandContext(t.Context(), realconsul.Binary(t), "reload",
			"-http-addr="+agent.Addr())
		if out, err := reload.CombinedOutput(); err != nil {
			t.Errorf("reload: %v: %s", err, out)
		}
	}
	for _, agent := range consul.Agents {
		// so busy that it does nothing: less than what the gossip takes for a loss
		if agent.Freeze() == nil {
			await(t, time.Now().Add(3*time.Second))
			_ = agent.Thaw()
		}
		// less than that, too: one that is back is no loss
		if agent.Kill() == nil {
			_ = agent.Start()
		}
	}
	ready(t, consul)
	old := consul.Leader()
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, workLimit, "Consul has another leader", func() string {
		for _, server := range consul.Servers {
			if server == old {
				continue
			}
			if leader, err := server.Client().Status().Leader(); err == nil && leader != "" {
				return ""
			}
		}
		return "none"
	})
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	ready(t, consul)
	s.do("work", "add", "one-more")
	s.runs(append(items, "one-more"))
	if story := s.since(mark); len(story) != 1 || story[0].item != "one-more" {
		t.Errorf("work has begun and ended: %+v", story)
	}
	if now := s.now(); now.Leader.ID != leader {
		t.Errorf("%s led, and now %s does", leader, now.Leader.ID)
	}
	still, _, err := consul.Client().Session().List(nil)
	if err != nil || !slices.Equal(idsOf(still), idsOf(bound)) {
		t.Errorf("the sessions %q are now %q, %v", idsOf(bound), idsOf(still), err)
	}
	for _, word := range []string{"session-lost", "no-check", "lost-leadership"} {
		if s.said(word) > 0 || strings.Contains(elected.stderr(), "msg="+word) {
			t.Errorf("somebody said %s", word)
		}
	}
	elected.signal(syscall.SIGTERM)
	if code, _ := elected.ends(workLimit); code != 0 {
		t.Errorf("the candidate ended with %d", code)
	}
}

func idsOf(sessions []*api.SessionEntry) (ids []string) {
	for _, s := range sessions {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	return ids
}

// Two agents behind one address, by turns: a report finds no check at the one that the member was
// not registered at. So it is registered there, too, and each of them has reports enough; of more
// agents the member says that it has no check (TestSeveralAgentsAtOneAddressCostNoSession in
// actors). It loses nothing.
func TestTwoAgentsBehindALoadBalancerCostAMemberNothing(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{Servers: 1, Agents: 2})
	var turn atomic.Int64
	transport := &http.Transport{}
	balancer := httptest.NewServer(&httputil.ReverseProxy{Transport: transport,
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http"
			r.Out.URL.Host = consul.Agents[turn.Add(1)%2].Addr()
		}})
	t.Cleanup(func() {
		balancer.CloseClientConnections()
		balancer.Close()
		transport.CloseIdleConnections()
	})
	const checkTTL = 24 * time.Second
	s := newService(t, strings.TrimPrefix(balancer.URL, "http://"))
	s.start("n1", "--ttl", "4m", "--check-ttl", checkTTL.String())
	items := s.share(3)
	mark := s.mark()
	passing := func() string {
		all, _, err := consul.Client().Health().Service(s.name, "", true, nil)
		if err != nil || len(all) != 2 || all[0].Node.Node == all[1].Node.Node {
			return fmt.Sprintf("%d instances pass, %v", len(all), err)
		}
		return ""
	}
	testkit.Await(t, workLimit, "an instance at each agent", passing)
	await(t, time.Now().Add(2*checkTTL))
	if why := passing(); why != "" {
		t.Error(why)
	}
	if story := s.since(mark); len(story) > 0 || s.said("session-lost") > 0 {
		t.Errorf("work has begun and ended: %+v", story)
	}
	s.runs(items)
}
