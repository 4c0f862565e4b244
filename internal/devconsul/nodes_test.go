package devconsul_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/devconsul"
)

// onNode registers an instance with a check of a minute by an agent, reports to it, and returns a
// session that is bound to the check.
func onNode(t *testing.T, a *devconsul.Agent) (session string) {
	t.Helper()
	c := a.Client()
	err := c.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web",
		ID: "web-" + a.Name(), Check: &api.AgentServiceCheck{TTL: "1m", Status: "passing",
			DeregisterCriticalServiceAfter: "1m"}})
	if err == nil {
		err = c.Agent().UpdateTTL("service:web-"+a.Name(), "fine", "passing")
	}
	if err == nil {
		session, _, err = c.Session().Create(&api.SessionEntry{TTL: "10m",
			NodeChecks: []string{"serfHealth"}, LockDelay: time.Nanosecond,
			ServiceChecks: []api.ServiceCheck{{ID: "service:web-" + a.Name()}}}, nil)
	}
	must(t, err)
	return session
}

// sessionBy makes a session by an agent, on its node.
func (w world) sessionBy(a *devconsul.Agent, body string) string {
	w.Helper()
	var out struct{ ID string }
	if _, err := a.Client().Raw().Write("/v1/session/create", json.RawMessage(body), &out,
		nil); err != nil {
		w.Fatal(err)
	}
	return out.ID
}

func passing(t *testing.T, c *api.Client) int {
	t.Helper()
	found, _, err := c.Health().Service("web", "", true, nil)
	must(t, err)
	return len(found)
}

func TestEachNodeHasItsOwnAgentAndTheirStateIsOne(t *testing.T) {
	bubble(t, func(w world) {
		one, two := w.s.AddAgent("one"), w.s.AddAgent("two")
		on1, on2 := onNode(t, one), onNode(t, two)
		for _, c := range []*api.Client{w.c, one.Client(), two.Client()} {
			if n := passing(t, c); n != 2 {
				t.Errorf("%d instances pass", n)
			}
		}
		for agent, want := range map[*api.Client]int{w.c: 0, one.Client(): 1, two.Client(): 1} {
			if all, err := agent.Agent().Services(); err != nil || len(all) != want {
				t.Errorf("an agent shows %d services, %v; want %d", len(all), err, want)
			}
		}
		if name, err := two.Client().Agent().NodeName(); err != nil || name != "two" {
			t.Errorf("its node is %q, %v", name, err)
		}
		found, _, err := w.c.Session().Node("one", nil)
		if err != nil || len(found) != 1 || found[0].ID != on1 || on1 == on2 {
			t.Errorf("the sessions of one: %v, %v", found, err)
		}
		if _, err := two.Client().KV().Put(&api.KVPair{Key: "k"}, nil); err != nil {
			t.Error(err)
		}
		if p, _, err := one.Client().KV().Get("k", nil); err != nil || p == nil {
			t.Errorf("what is written by one agent is read by another: %v, %v", p, err)
		}
		if err := one.Client().Agent().UpdateTTL("service:web-two", "", "passing"); err == nil {
			t.Error("an agent takes a report to another one's check")
		}
		if all, err := w.c.Agent().Members(false); err != nil || len(all) != 3 {
			t.Errorf("%d members, %v", len(all), err)
		}
	})
}

func TestALostMachineIsSeenByGossip(t *testing.T) {
	bubble(t, func(w world) {
		one, two := w.s.AddAgent("one"), w.s.AddAgent("two")
		on1, on2 := onNode(t, one), onNode(t, two)
		asked := make(chan error)
		go func() {
			_, _, err := one.Client().KV().Get("k", (&api.QueryOptions{WaitIndex: 1 << 20,
				WaitTime: time.Minute}).WithContext(context.Background()))
			asked <- err
		}()
		time.Sleep(time.Second)
		one.Kill()
		if err := <-asked; err == nil {
			t.Error("a request by a killed agent is answered")
		}
		if _, err := one.Client().Agent().Services(); err == nil {
			t.Error("a killed agent answers")
		}
		time.Sleep(7*time.Second - time.Millisecond)
		if !w.alive(on1) || passing(t, w.c) != 2 {
			t.Error("its node is taken for failed at once")
		}
		time.Sleep(2 * time.Millisecond)
		if w.alive(on1) || !w.alive(on2) || passing(t, w.c) != 1 {
			t.Error("the sessions of its node, and no others, end with its serfHealth")
		}
		time.Sleep(10 * time.Second)
		one.Start()
		if passing(t, w.c) != 2 {
			t.Error("back with a report that has not expired, its instance passes again")
		}
		if w.alive(on1) {
			t.Error("its session is back")
		}
	})
}

func TestAnAgentThatIsBackInTimeCostsNoSession(t *testing.T) {
	bubble(t, func(w world) {
		one := w.s.AddAgent("one")
		s := onNode(t, one)
		one.Kill()
		time.Sleep(6 * time.Second)
		one.Start()
		time.Sleep(30 * time.Second)
		if !w.alive(s) || passing(t, w.c) != 1 {
			t.Error("it was back in time")
		}
	})
}

// A check whose last report has expired when its agent comes back is critical.
func TestAnAgentThatIsBackTooLateEndsItsChecks(t *testing.T) {
	bubble(t, func(w world) {
		one := w.s.AddAgent("one")
		onNode(t, one)
		s := w.sessionBy(one, `{"NodeChecks":["service:web-one"]}`) // not bound to serfHealth
		one.Kill()
		time.Sleep(2 * time.Minute)
		if !w.alive(s) {
			t.Error("the checks of a dead agent stand still")
		}
		one.Start()
		if w.alive(s) {
			t.Error("its check has expired")
		}
	})
}

func TestAnAgentThatLeavesTakesItsSessionsAlong(t *testing.T) {
	bubble(t, func(w world) {
		one := w.s.AddAgent("one")
		s := w.sessionBy(one, `{"NodeChecks":[],"Checks":[]}`)
		one.Leave()
		if w.alive(s) {
			t.Error("a session outlives its node")
		}
		one.Start()
		if !w.alive(w.sessionBy(one, `{}`)) {
			t.Error("it is not back")
		}
	})
}
