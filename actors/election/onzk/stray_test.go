//go:build coordd_elections

package onzk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
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
	ghost := "/_c_" + strings.Repeat("f", 32) + "-p7-n0000000000"
	for name, stray := range map[string][]*zk.CreateRequest{
		"a lasting candidate":         {node(ghost, `{"id":"ghost","name":"ghost","priority":7}`)},
		"a lasting one with children": {node(ghost, ""), node(ghost+"/child", "")},
		"an order with children":      {node("/yield", "?"), node("/yield/child", "")},
		"a term with children":        {node("/term", "?"), node("/term/child", "")},
		"an identity that cannot be":  {node("", `{"id":"\u0001"}`)},
		"a state that cannot be":      {node("", `{"state":7`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &store{t: t, server: server, timeout: sessionTimeout, root: rootOf(t)}
			c, err := onzk.Connect(s.config(&wire{}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			if stray[0].Path != "" {
				stray = append([]*zk.CreateRequest{node("", "")}, stray...)
			}
			base := s.root + "/demo"
			ops := []any{node(s.root, "")}
			for _, n := range stray {
				ops = append(ops, node(base+n.Path, string(n.Data)))
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
			for _, e := range []*election.Election{e, next} {
				e.Resign()
				<-e.Done()
			}
			if err := next.Delete(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
