package onconsul_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// The prefix of one connection is the name of an election of another: to delete that election,
// which need not even exist, deletes nothing of others.
func TestDeleteRemovesNoElectionBelowItsName(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		open := func(prefix, name string) (*election.Election, *onconsul.Conn) {
			client := devconsul.ClientOver(&wire{next: s.consul.RoundTripper(), server: s})
			conn, err := onconsul.Connect(onconsul.Config{Client: client, Logger: s.log,
				Prefix: prefix})
			must(t, err)
			e, err := election.New(conn, election.Config{Election: name, Name: "n", Logger: s.log,
				Lead: untilTold})
			must(t, err)
			return e, conn
		}
		inner, one := open("team/db/", "writer")
		if _, err := inner.Nominate(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		before := inner.State().Get()
		for range 2 {
			outer, two := open("team/", "db")
			if err := outer.Delete(t.Context()); err != nil {
				t.Error(err)
			}
			if err := outer.End(t.Context()); err != nil { // the second time there is one
				t.Error(err)
			}
			two.Close()
		}
		outer, two := open("team/", "db")
		if err := outer.Delete(t.Context()); err != nil {
			t.Error(err)
		}
		two.Close()
		time.Sleep(time.Second)
		if s := inner.State().Get(); s.Role != election.Leading || s.Token != before.Token {
			t.Errorf("it led by %v, and now says: %v", before, s)
		}
		if keys, _, err := s.consul.Client().KV().Keys("team/db/state/", "", nil); err != nil ||
			len(keys) > 0 {
			t.Errorf("left of the deleted election: %q (%v)", keys, err)
		}
		inner.Resign()
		<-inner.Done()
		one.Close()
	})
}

func TestAnElectionWhoseKeysAreAmongAnothersIsRefused(t *testing.T) {
	for _, c := range []struct {
		prefix, name string
		good         bool
	}{
		{"team/db/", "candidates", false}, {"team/db/", "joins", false},
		{"team/db/", "state", false}, {"team/db/state/", "x", false},
		{"team/db/", "leader", true}, {"team/", "state", true}, {"state/", "x", true},
		{"", "candidates", true},
	} {
		s := newEmbedded(t)
		conn, err := onconsul.Connect(onconsul.Config{Prefix: c.prefix, Logger: s.log,
			Client: devconsul.ClientOver(s.consul.RoundTripper())})
		must(t, err)
		_, err = election.New(conn, election.Config{Election: c.name, Name: "n"})
		if (err == nil) != c.good || err != nil && !errors.Is(err, election.ErrInvalid) {
			t.Errorf("election %q below %q: %v", c.name, c.prefix, err)
		}
		conn.Close()
		s.consul.Close()
	}
}

// Another program may keep keys where an election of that name would.
func TestDeleteRemovesNoKeysOfAnotherProgram(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		client := devconsul.ClientOver(s.consul.RoundTripper())
		conn, err := onconsul.Connect(onconsul.Config{Prefix: "team/", Logger: s.log,
			Client: client})
		must(t, err)
		defer conn.Close()
		for _, key := range []string{"state/table", "joins/2026/11", "candidates/list"} {
			e, err := election.New(conn, election.Config{Election: "program", Name: "n"})
			must(t, err)
			key = "team/program/" + key
			_, err = client.KV().Put(&api.KVPair{Key: key, Value: []byte("1")}, nil)
			must(t, err)
			if err := e.Delete(t.Context()); !errors.Is(err, election.ErrInvalid) {
				t.Errorf("with %s: %v", key, err)
			}
			if pair, _, err := client.KV().Get(key, nil); pair == nil {
				t.Errorf("%s is gone (%v)", key, err)
			}
			if _, err := client.KV().Delete(key, nil); err != nil {
				t.Error(err)
			}
		}
	})
}
