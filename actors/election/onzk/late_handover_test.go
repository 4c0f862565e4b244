//go:build coordd_elections

package onzk_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realzookeeper"
)

// An order to hand over names the leader that it was read for. By the time that it arrives that one
// may have gone, and the next leader's node has the same version.
func TestAHandOverThatArrivesLateMissesTheNextLeader(t *testing.T) {
	t.Parallel()
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	s := &store{t: t, server: server, timeout: crowdTimeout, root: rootOf(t)}
	connect := func(w *wire) *onzk.Conn {
		c, err := onzk.Connect(s.config(w))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	w := &wire{}
	slow, quick := connect(w), connect(&wire{})
	first, _ := nominate(t, quick, "n1")
	wait(t, first, election.Leading)
	next, _ := nominate(t, quick, "n2")
	wait(t, next, election.Following)
	operator, err := election.New(slow, election.Config{Election: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	held := w.Hold(func(request []byte) bool {
		return bytes.Contains(request, []byte(`"yield":"`))
	})
	late := make(chan error, 1)
	go func() { late <- operator.HandOver(t.Context(), "n2") }()
	select {
	case <-held:
	case <-time.After(time.Minute):
		t.Fatal("the order to hand over was not sent")
	}
	first.Resign()
	<-first.Done()
	token := wait(t, next, election.Leading).Token
	w.Free()
	if err := <-late; err != nil {
		t.Errorf("n2 leads already, and the order says %v", err)
	}
	time.Sleep(time.Second)
	if s := next.State().Get(); s.Role != election.Leading || s.Token != token {
		t.Errorf("an order to the leader before has deposed this one: %v", s)
	}
	last, _ := nominate(t, quick, "n3")
	wait(t, last, election.Following)
	next.Resign()
	<-next.Done()
	wait(t, last, election.Leading)
}
