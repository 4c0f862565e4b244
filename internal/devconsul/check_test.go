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
