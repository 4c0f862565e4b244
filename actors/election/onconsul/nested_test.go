package onconsul_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
)

// The prefix of one connection is the name of an election of another: to delete that election,
// which need not even exist, deletes nothing of others.
func TestDeleteRemovesNoElectionBelowItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		open := func(prefix, name string) (*election.Election, *onconsul.Conn) {
			client := devconsul.ClientOver(&wire{next: s.consul.RoundTripper(), server: s})
			conn, err := onconsul.Connect(onconsul.Config{Client: client, Logger: s.log,
				Prefix: prefix})
			if err != nil {
				t.Fatal(err)
			}
			e, err := election.New(conn, election.Config{Election: name, Name: "n", Logger: s.log,
				Lead: untilTold})
			if err != nil {
				t.Fatal(err)
			}
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
