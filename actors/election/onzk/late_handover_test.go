//go:build coordd_elections

package onzk_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/test/realzookeeper"
)

// An order to hand over names the leader that it was read for. By the time that it arrives that one
// may have gone, and the next leader's node has the same version.
func TestAHandOverThatArrivesLateMissesTheNextLeader(t *testing.T) {
	t.Parallel()
	s := begin(t, crowdTimeout)
	w := &wire{}
	slow, quick := s.connect(t, w), s.connect(t, &wire{})
	first, _ := nominate(t, quick, "n1")
	wait(t, first, election.Leading)
	next, _ := nominate(t, quick, "n2")
	wait(t, next, election.Following)
	operator, err := election.New(slow, election.Config{Election: "demo"})
	must(t, err)
	held := w.Hold(func(request []byte) bool {
		return bytes.Contains(request, []byte(`"yield":"`))
	})
	late := make(chan error, 1)
	go func() { late <- operator.HandOver(t.Context(), "n2") }()
	soon(t, held, "the order to hand over was not sent")
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

// Whoever gave an order has given up waiting for it before it has read anything. It does nothing to
// whom it was not for, however late it reads.
func TestAnOrderThatWasGivenUpDoesNothingLater(t *testing.T) {
	t.Parallel()
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	for name, give := range map[string]func(context.Context, *election.Election) error{
		"end":    func(ctx context.Context, e *election.Election) error { return e.End(ctx) },
		"delete": func(ctx context.Context, e *election.Election) error { return e.Delete(ctx) },
		"hand over": func(ctx context.Context, e *election.Election) error {
			return e.HandOver(ctx, "n3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &store{t: t, server: server, timeout: crowdTimeout, root: rootOf(t)}
			w := &wire{}
			slow, quick := s.connect(t, w), s.connect(t, &wire{})
			leader, _ := nominate(t, quick, "n2")
			wait(t, leader, election.Leading)
			other, _ := nominate(t, quick, "n3")
			wait(t, other, election.Following)
			order, err := election.New(slow, election.Config{Election: "demo"})
			must(t, err)
			if _, err := order.Candidates(t.Context()); err != nil {
				t.Fatal(err)
			}
			const get = 4 // the kind of a request that reads a node
			ask := append([]byte{0, 0, 0, get, 0, 0, 0, byte(len(s.root + "/demo"))},
				s.root+"/demo"...)
			held := w.Hold(func(request []byte) bool { return bytes.Contains(request, ask) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			late := make(chan error, 1)
			go func() { late <- give(ctx, order) }()
			soon(t, held, "the order has asked for nothing")
			cancel()
			if err := <-late; err == nil {
				t.Error("an order that was given up says that it is done")
			}
			w.Free()
			time.Sleep(2 * time.Second)
			if s := leader.State().Get(); s.Role != election.Leading {
				t.Errorf("an order that was given up has deposed the leader: %v", s)
			}
		})
	}
}
