//go:build coordd_elections

package onzk_test

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/election"
)

// A stranger has removed the identity of an election. An order makes it again, and leaves nothing
// of that behind.
func TestAnIdentityThatIsGoneIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := begin(t, sessionTimeout)
	c := s.connect(t, &wire{})
	e, _ := nominate(t, c, "n1")
	wait(t, e, election.Leading)
	base := s.root + "/demo"
	names := func() (identities []string, probes int) {
		t.Helper()
		children, _, err := c.ZK().Children(base)
		must(t, err)
		for _, name := range children {
			switch {
			case strings.HasPrefix(name, "_e_"):
				identities = append(identities, name)
			case strings.HasPrefix(name, "_p_"):
				probes++
			}
		}
		return identities, probes
	}
	before, _ := names()
	must(t, c.ZK().Delete(base+"/"+before[0], -1))
	must(t, e.End(t.Context()))
	e.Resign()
	<-e.Done()
	if after, probes := names(); len(after) != 1 || after[0] != before[0] || probes != 0 {
		t.Errorf("the identity was %v, and is %v; %d probes are left", before, after, probes)
	}
	must(t, e.Delete(t.Context()))
}
