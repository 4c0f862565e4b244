package actors_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
)

// A member's work has stopped with its lease, and a stranger writes over the key of an item before
// the lease runs again: nothing runs under such a key, and so nothing that a member does says that
// it must be written anew.
func TestAKeyThatIsAddressedToNobodyIsWrittenAnew(t *testing.T) {
	other := "0d8f3a2e-0000-4000-8000-000000000000"
	for name, value := range map[string][]byte{
		"garbage":    []byte("\x00"),
		"a bare own": []byte(protocol.StateOwn),
		"a bare rel": []byte(protocol.StateRel),
		"to another session": protocol.Assignment{State: protocol.StateOwn,
			Session: other}.Encode(),
		"back from another": protocol.Assignment{State: protocol.StateRel,
			Session: other}.Encode(),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.addWork(c.items(4)...)
				for _, id := range []string{"n1", "n2"} {
					c.start(id)
				}
				c.await("the items shared out", 40*time.Second, c.balanced(4))
				s := &siege{cluster: c}
				at := s.owner("device_group_0001")
				c.members[at].net.Cut(errors.New("cut off"))
				time.Sleep(11 * time.Second) // its lease is over, and its session is not
				s.aim("assignments/"+at+"/device_group_0001", value, 0)
				c.members[at].net.Cut(nil)
				c.await("all of them run again", 30*time.Second, c.balanced(4))
			})
		})
	}
}
