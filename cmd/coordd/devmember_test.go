package main

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/testkit"
)

func TestAWayThatIsCutOffBreaksEachConnectionUntilItIsOpenedAgain(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	way, served := newDevWay(ln), make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := way.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("here"))
		}
	}()
	defer func() {
		way.setCut(true) // closes what was accepted
		way.Close()
		<-served
	}()
	greeted := func() (net.Conn, error) {
		c, err := net.Dial("tcp", ln.Addr().String())
		must(t, err)
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(testkit.Patience))
		_, err = io.ReadFull(c, make([]byte, 4))
		return c, err
	}
	before, err := greeted()
	must(t, err)
	way.setCut(true)
	if _, err := before.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a connection from before is there: %v", err)
	}
	if _, err := greeted(); err == nil || isTimeout(err) {
		t.Errorf("a new connection is let in: %v", err)
	}
	way.setCut(false)
	if _, err := greeted(); err != nil {
		t.Errorf("opened again: %v", err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func TestDevOffersWhatCanBeDoneNow(t *testing.T) {
	m := &devMember{id: "n1", way: newDevWay(nil), again: make(chan struct{}, 1)}
	a := &devActions{members: []*devMember{m}}
	offers := func(now operator.Status, state string, want ...string) {
		t.Helper()
		of := a.Offered(now)[0]
		var got []string
		for _, action := range of.Actions {
			got = append(got, action.Name)
		}
		if !slices.Equal(got, want) || of.State != state {
			t.Errorf("%q: %v, want %q: %v", of.State, got, state, want)
		}
	}
	offers(operator.Status{}, "", "start")
	m.ended = "killed"
	offers(operator.Status{Drained: []string{"n1"}}, "killed", "start", "undrain")
	m.way.setCut(true)
	offers(operator.Status{}, "killed, cut off from Consul", "start", "reconnect")
	for _, action := range []string{"kill", "freeze", "thaw"} {
		if err := a.Do(t.Context(), "n1", action); err == nil {
			t.Errorf("%s of a process that does not run", action)
		}
	}
	if a.Do(t.Context(), "n1", "dance") == nil || a.Do(t.Context(), "n2", "kill") == nil {
		t.Error("what there is not was done")
	}
	for range 2 { // a second press is no second order
		if err := a.Do(t.Context(), "n1", "start"); err != nil {
			t.Error(err)
		}
	}
	if n := len(m.again); n != 1 {
		t.Errorf("%d orders to start it", n)
	}
}

func TestTheSettingsOfDevsEnvironmentAreNotThoseOfItsMembers(t *testing.T) {
	got := bareEnvironment([]string{"PATH=/bin", "COORDD_LEASE=9s", "CONSUL_HTTP_TOKEN=x",
		"BACKEND=consul", "NOTIFY_SOCKET=/run/n", "HOME=/"})
	if want := []string{"PATH=/bin", "HOME=/"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
