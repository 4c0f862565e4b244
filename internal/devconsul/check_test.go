package devconsul_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

func TestSessionEndsWhenItsCheckTurnsCritical(t *testing.T) {
	bubble(t, func(w world) {
		agent := w.c.Agent()
		err := agent.CheckRegister(&api.AgentCheckRegistration{Name: "alive",
			AgentServiceCheck: api.AgentServiceCheck{TTL: "2s"}})
		must(t, err)
		w.want(`PUT /v1/session/create {"NodeChecks":["alive"]}`, 500,
			"apply failed: Check 'alive' is in critical state")
		must(t, agent.UpdateTTL("alive", "fine", api.HealthPassing))
		s := w.session(`{"NodeChecks":["serfHealth","alive"],"TTL":"30s","LockDelay":"1s"}`)
		w.acquire("lock", s)
		for range 5 {
			time.Sleep(1900 * time.Millisecond)
			must(t, agent.UpdateTTL("alive", "fine", api.HealthPassing))
		}
		p := w.watch(context.Background(), "/v1/kv/lock", "1m")
		<-p.done
		if p.took != 2*time.Second || w.alive(s) {
			t.Errorf("the lock was freed after %v", p.took)
		}
		checks, err := agent.Checks()
		if err != nil || checks["alive"].Status != api.HealthCritical ||
			checks["alive"].Output != "TTL expired (last output before timeout follows): fine" {
			t.Errorf("%+v, %v", checks["alive"], err)
		}
		if w.acquire("lock", w.session(`{}`)) {
			t.Error("no lock-delay after a critical check")
		}
	})
}

func TestReportingAgainCostsNoLogEntry(t *testing.T) {
	bubble(t, func(w world) {
		w.call(`PUT /v1/agent/check/register {"Name":"c","TTL":"10s","Status":"passing"}`)
		before := w.s.Dump().Index
		for range 20 {
			time.Sleep(5 * time.Second)
			w.call("PUT /v1/agent/check/pass/c?note=still")
		}
		if after := w.s.Dump().Index; after != before {
			t.Errorf("index went from %d to %d", before, after)
		}
	})
}

func TestSessionEndsWithItsNodeOrCheck(t *testing.T) {
	bubble(t, func(w world) {
		w.call(`PUT /v1/catalog/register {"Node":"n","Address":"1.2.3.4","Checks":[` +
			`{"Name":"a","Status":"passing"},{"Name":"b","Status":"passing"}]}`)
		plain := w.session(`{"Node":"n","Checks":[]}`)
		onA := w.session(`{"Node":"n","NodeChecks":["a"]}`)
		onB := w.session(`{"Node":"n","NodeChecks":["b"]}`)
		w.want(`PUT /v1/catalog/deregister {"Node":"n","CheckID":"a"}`, 200, "true")
		if w.alive(onA) || !w.alive(onB) || !w.alive(plain) {
			t.Error("deregistering a check must end the sessions bound to it, and no others")
		}
		w.want(`PUT /v1/catalog/register {"Node":"n","SkipNodeUpdate":true,`+
			`"Check":{"Name":"b","Status":"critical"}}`,
			200, "true")
		if w.alive(onB) || !w.alive(plain) {
			t.Error("a critical check must end the sessions bound to it, and no others")
		}
		w.want(`PUT /v1/catalog/deregister {"Node":"n"}`, 200, "true")
		if w.alive(plain) {
			t.Error("a session outlived its node")
		}
	})
}

func TestAgentRegistersItsNodeAgainWithinAMinute(t *testing.T) {
	for _, deregister := range []string{
		`PUT /v1/catalog/deregister {"Node":"coordd-dev"}`,
		`PUT /v1/txn [{"Node":{"Verb":"delete","Node":{"Node":"coordd-dev"}}}]`,
	} {
		bubble(t, func(w world) {
			w.call(`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"1h",` +
				`"Status":"passing"}}`)
			s := w.session(`{}`)
			if a := w.call(deregister); a.code != 200 {
				t.Fatalf("%s: %+v", deregister, a)
			}
			if w.alive(s) {
				t.Error("a session outlived its node")
			}
			w.want("PUT /v1/session/create", 500, "apply failed: Missing node registration")
			time.Sleep(time.Minute + time.Nanosecond)
			w.session(`{}`)
			if h, _, err := w.c.Health().Service("web", "", true, nil); err != nil || len(h) != 1 {
				t.Errorf("%v, %v", h, err)
			}
		})
	}
}

func TestServicesAndTheirHealth(t *testing.T) {
	bubble(t, func(w world) {
		agent := w.c.Agent()
		err := agent.ServiceRegister(&api.AgentServiceRegistration{
			Name: "web", Port: 80, Tags: []string{"t"}, Address: "10.0.0.1",
			Check: &api.AgentServiceCheck{TTL: "10s"},
		})
		must(t, err)
		passing := func(want int) {
			t.Helper()
			if h, _, err := w.c.Health().Service("web", "t", true, nil); err != nil ||
				len(h) != want {
				t.Errorf("%d instances pass, want %d; %v", len(h), want, err)
			}
		}
		passing(0)
		must(t, agent.PassTTL("service:web", ""))
		passing(1)
		time.Sleep(10*time.Second + time.Nanosecond)
		passing(0)
		svcs, _, err := w.c.Catalog().Service("web", "", nil)
		if err != nil || len(svcs) != 1 || svcs[0].ServicePort != 80 ||
			svcs[0].ServiceAddress != "10.0.0.1" {
			t.Errorf("%+v, %v", svcs, err)
		}
		must(t, agent.ServiceDeregister("web"))
		if all, _, err := w.c.Catalog().Services(nil); err != nil || len(all) != 1 {
			t.Errorf("%v, %v", all, err)
		}
		if checks, err := agent.Checks(); err != nil || len(checks) != 0 {
			t.Errorf("%v, %v", checks, err)
		}
	})
}

func TestEmptyCheckOfAServiceIsNone(t *testing.T) {
	bubble(t, func(w world) {
		for name, check := range map[string]string{
			"zero": `{"TTL":"0s"}`, "nothing": `{}`, "args": `{"ScriptArgs":[],"Timeout":"0"}`,
		} {
			w.want(`PUT /v1/agent/service/register {"Name":"`+name+`","Check":`+check+`}`, 200, "")
			if a := w.call("GET /v1/agent/service/" + name); a.code != 200 {
				t.Errorf("%s was not registered: %d %s", check, a.code, a.body)
			}
		}
		const bad = "Invalid check: TTL must be > 0 for TTL checks"
		w.want(`PUT /v1/agent/service/register {"Name":"bad","Check":{"CheckID":"c","TTL":"0s"}}`,
			400, bad)
		w.want(`PUT /v1/agent/service/register {"Name":"bad","Checks":[{"TTL":"0s"}]}`, 400, bad)
		w.want(`PUT /v1/agent/check/register {"Name":"bad","TTL":"0s"}`, 400, bad)
		w.want("GET /v1/agent/checks", 200, "{}")
	})
}

func TestHealthOfAServiceIsWatched(t *testing.T) {
	bubble(t, func(w world) {
		w.call(`PUT /v1/agent/check/register {"Name":"node","TTL":"1h","Status":"passing"}`)
		for _, c := range []struct {
			when string
			wake bool
		}{
			{`PUT /v1/agent/service/register {"Name":"another"}`, false},
			{"PUT /v1/agent/service/deregister/another", false},
			{`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"1h"}}`, true},
			{"PUT /v1/agent/check/pass/service:web", true},
			{"PUT /v1/agent/check/pass/service:web", false},
			{`PUT /v1/agent/service/register {"Name":"other"}`, false},
			{"PUT /v1/agent/check/warn/node", true},
			{"PUT /v1/kv/a", false},
			{"PUT /v1/agent/service/deregister/web", true},
		} {
			p := w.watch(context.Background(), "/v1/health/service/web", "10s")
			w.call(c.when)
			<-p.done
			if woke := p.took == 0; woke != c.wake {
				t.Errorf("%s: returned after %v", c.when, p.took)
			}
		}
	})
}

func TestClientFindsItsNodeLeaderAndPeers(t *testing.T) {
	bubble(t, func(w world) {
		name, err := w.c.Agent().NodeName()
		if err != nil || name != "coordd-dev" {
			t.Errorf("node %q, %v", name, err)
		}
		if l, err := w.c.Status().Leader(); err != nil || l == "" {
			t.Errorf("leader %q, %v", l, err)
		}
		if p, err := w.c.Status().Peers(); err != nil || len(p) != 1 {
			t.Errorf("peers %v, %v", p, err)
		}
		if m, err := w.c.Agent().Members(false); err != nil || len(m) != 1 || m[0].Name != name {
			t.Errorf("members %v, %v", m, err)
		}
		if n, _, err := w.c.Catalog().Nodes(nil); err != nil || len(n) != 1 || n[0].Node != name {
			t.Errorf("nodes %v, %v", n, err)
		}
		if n, _, err := w.c.Catalog().Node(name, nil); err != nil || n.Services["consul"] == nil {
			t.Errorf("node %v, %v", n, err)
		}
		if dcs, err := w.c.Catalog().Datacenters(); err != nil || len(dcs) != 1 || dcs[0] != "dc1" {
			t.Errorf("datacenters %v, %v", dcs, err)
		}
		if checks, _, err := w.c.Health().State("any", nil); err != nil || len(checks) != 1 ||
			checks[0].CheckID != "serfHealth" {
			t.Errorf("checks %v, %v", checks, err)
		}
	})
}
