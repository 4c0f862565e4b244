//go:build coordd_elections

package onzk_test

import (
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/go-zookeeper/zk"
)

// The rights to an election's nodes are taken away from the one that is to lead next, who can
// neither lead nor leave then. The one behind it leads.
func TestACandidateWhoseRightsAreTakenAwayHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := begin(t, sessionTimeout)
	stay, gone := zk.DigestACL(zk.PermAll, "stay", "secret"), zk.DigestACL(zk.PermAll, "go", "secret")
	connect := func(digest string) *onzk.Conn {
		cfg := s.config(&wire{})
		cfg.Digest, cfg.ACL = digest, append(stay[:1:1], gone...)
		c, err := onzk.Connect(cfg)
		must(t, err)
		t.Cleanup(c.Close)
		return c
	}
	one := connect("stay:secret")
	first, _ := nominate(t, one, "first")
	wait(t, first, election.Leading)
	denied, _ := nominate(t, connect("go:secret"), "denied")
	wait(t, denied, election.Following)
	last, _ := nominate(t, one, "last")
	wait(t, last, election.Following)
	base := s.root + "/demo"
	children, _, err := one.ZK().Children(base)
	must(t, err)
	paths := []string{base}
	for _, child := range children {
		paths = append(paths, base+"/"+child)
	}
	for _, path := range paths {
		_, err := one.ZK().SetACL(path, stay, -1)
		must(t, err)
	}
	first.Resign()
	wait(t, last, election.Leading)
}
