package onconsul_test

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
)

// Consul refuses such keys, however often it is asked.
func TestAnElectionWithoutPossibleKeysIsRefusedAtOnce(t *testing.T) {
	for _, c := range []struct{ prefix, name string }{
		{"a%20b/", "demo"}, {"x/../", "demo"}, {" x/", "demo"},
		{"%41/", "a..b"}, // each will do alone
	} {
		consul := devconsul.New(devconsul.Config{})
		conn, err := onconsul.Connect(onconsul.Config{Client: consul.Client(), Prefix: c.prefix})
		must(t, err)
		if _, err := election.New(conn, election.Config{Election: c.name, Name: "a"}); !errors.Is(
			err, election.ErrInvalid) {
			t.Errorf("%q with the prefix %q: %v", c.name, c.prefix, err)
		}
		conn.Close()
		consul.Close()
	}
	consul := devconsul.New(devconsul.Config{})
	defer consul.Close()
	for _, c := range []struct{ prefix, name string }{{"%41/", "demo"}, {"", "a..b"}} {
		conn, err := onconsul.Connect(onconsul.Config{Client: consul.Client(), Prefix: c.prefix})
		must(t, err)
		if _, err := conn.Open(c.name); err != nil {
			t.Errorf("%q with the prefix %q: %v", c.name, c.prefix, err)
		}
		conn.Close()
	}
}
