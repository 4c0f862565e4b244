package onzk_test

import (
	"errors"
	"net"
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/go-zookeeper/zk"
)

// takeHook is a connection that calls a function before what takes the leadership, or gives it up.
type takeHook struct {
	net.Conn
	before *func()
}

func (c *takeHook) Write(request []byte) (int, error) {
	if isTake(request) {
		(*c.before)()
	}
	return c.Conn.Write(request)
}

// A view says that a candidate does not lead, and is heard of when that one has taken the
// leadership since, or while it is denied to give it up. It counts as one that leads, all the same.
func TestAViewThatIsLateEndsNoLeadership(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var during func()
		server := &denying{Way: s.zoo.Way(devzookeeper.Weather{})}
		before := func() {}
		conn := s.connect(onzk.Config{Dial: over(server.Dial, func(c net.Conn) net.Conn {
			return &takeHook{c, &before}
		})})
		defer conn.Close()
		b, err := conn.Open("demo")
		must(t, err)
		_, err = b.Join(t.Context(), election.Candidate{ID: "b", Name: "b"})
		must(t, err)
		leads := func(when string, want int) {
			t.Helper()
			if n := conn.Leaders(); n != want {
				t.Errorf("a view %s: %d lead, and not %d", when, n, want)
			}
		}
		earlier := onzk.ViewWithoutLeader(b)
		before = func() { during = onzk.ViewWithoutLeader(b) }
		_, _, err = b.Take(t.Context())
		must(t, err)
		earlier()
		leads("of before the take", 1)
		during()
		leads("of while it was under way", 1)
		before = func() { onzk.ViewWithoutLeader(b)() }
		path := "/demo/leader"
		server.path.Store(&path)
		if err := b.Release(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("the release is answered with %v", err)
		}
		leads("of while the release was under way", 1)
		onzk.ViewWithoutLeader(b)()
		leads("of now", 0)
		server.path.Store(nil)
		must(t, b.Leave(t.Context()))
	})
}
