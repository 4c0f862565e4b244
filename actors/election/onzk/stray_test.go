//go:build coordd_elections

package onzk_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/test/realzookeeper"
	"github.com/go-zookeeper/zk"
)

// What a stranger left among an election's nodes keeps nobody from leading; nor what a tool left
// that copies trees, and makes lasting nodes of ephemeral ones.
func TestWhatStrangersLeaveIsInNobodysWay(t *testing.T) {
	t.Parallel()
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	world := zk.WorldACL(zk.PermAll)
	node := func(path, data string) *zk.CreateRequest {
		return &zk.CreateRequest{Path: path, Data: []byte(data), Acl: world}
	}
	own := zk.DigestACL(zk.PermAll, "stranger", "secret")
	isTerm := func(n *zk.CreateRequest) bool { return n.Path == "/term" }
	ghost := "/" + ghost
	for name, stray := range map[string][]*zk.CreateRequest{
		"a lasting candidate":         {node(ghost, `{"id":"ghost","name":"ghost","priority":7}`)},
		"a lasting one with children": {node(ghost, ""), node(ghost+"/child", "")},
		"an order with children":      {node("/yield", "?"), node("/yield/child", "")},
		"a term with children":        {node("/term", "?"), node("/term/child", "")},
		"a leader of nobody":          {{Path: "/leader", Acl: own}},
		"an order of nobody":          {{Path: "/yield", Acl: own}},
		"an identity that cannot be":  {node("", `{"id":"\u0001"}`)},
		"a state that cannot be":      {node("", `{"state":7`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &store{t: t, server: server, timeout: sessionTimeout, root: rootOf(t)}
			c := s.connect(t, &wire{})
			if stray[0].Path != "" {
				stray = append([]*zk.CreateRequest{node("", "")}, stray...)
			}
			if !slices.ContainsFunc(stray, isTerm) { // without one it is no election
				stray = append(stray, node("/term", ""))
			}
			base := s.root + "/demo"
			ops := []any{node(s.root, "")}
			for _, n := range stray {
				ops = append(ops, &zk.CreateRequest{Path: base + n.Path, Data: n.Data, Acl: n.Acl})
			}
			if _, err := c.ZK().Multi(ops...); err != nil {
				t.Fatal(err)
			}
			e, _ := nominate(t, c, "n1")
			next, _ := nominate(t, c, "n2")
			leads := func(e *election.Election) bool {
				return e.State().Get().Role == election.Leading
			}
			for begin := time.Now(); !leads(e) && !leads(next); time.Sleep(50 * time.Millisecond) {
				if time.Since(begin) > 20*sessionTimeout {
					t.Fatalf("nobody leads: %v, %v", e.State().Get(), next.State().Get())
				}
			}
			list, err := e.Candidates(t.Context())
			if err != nil || len(list) != 2 {
				t.Errorf("the candidates are %v, %v; want two", list, err)
			}
			electiontest.Resign(e, next)
			if err := next.Delete(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a stranger writes over the leader's node takes nothing from the leader, whose session has
// the node still, and keeps nobody from leading after it.
func TestALeadersNodeThatAStrangerWroteOverIsTheLeadersStill(t *testing.T) {
	t.Parallel()
	server := realzookeeper.Start(t, realzookeeper.Options{}).Servers[0]
	for name, data := range map[string]string{"nonsense": "?", "nothing": "",
		"another candidate": `{"id":"ghost","name":"ghost"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &store{t: t, server: server, timeout: sessionTimeout, root: rootOf(t)}
			c := s.connect(t, &wire{})
			first, statuses := nominate(t, c, "n1")
			token := wait(t, first, election.Leading).Token
			next, _ := nominate(t, c, "n2")
			wait(t, next, election.Following)
			if _, err := c.ZK().Set(s.root+"/demo/leader", []byte(data), -1); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*sessionTimeout)
			defer cancel()
			lost, err := first.State().Wait(ctx, func(s election.Status) bool {
				return s.Role != election.Leading || s.Token != token
			})
			if err == nil {
				t.Errorf("it leads no more: %v", lost)
			}
			for len(statuses) > 0 {
				<-statuses
			}
			first.Resign()
			<-first.Done()
			wait(t, next, election.Leading)
		})
	}
}
