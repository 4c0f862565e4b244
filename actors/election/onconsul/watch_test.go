package onconsul_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

func TestAFollowerOfAnElectionThatDoesNotExistIsLeftAloneByWritesBesideIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		count := &transport.Counter{To: s.consul.RoundTripper(),
			Match: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/state/") }}
		conn := s.over(count)
		defer conn.Close()
		open := func(name string) *election.Election {
			e, err := election.New(conn, election.Config{Election: "demo", Name: name,
				Logger: s.log})
			must(t, err)
			return e
		}
		f := open("f")
		if _, err := f.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		const seconds, writes = 10, 200
		for i := range writes {
			if _, err := s.consul.Client().KV().Put(
				&api.KVPair{Key: fmt.Sprintf("election/other-%d", i)}, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(seconds * time.Second / writes)
		}
		if n := count.N(); n > seconds+2 {
			t.Errorf("%d writes beside it in %d s woke the follower %d times", writes, seconds, n)
		}
		// Who joins does not wait for that pause, and the follower hears of it soon.
		a := open("a")
		if _, err := a.Nominate(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if s := a.State().Get(); s.Role != election.Leading {
			t.Errorf("a tenth of a second after joining, alone, a is %v", s)
		}
		time.Sleep(time.Second)
		if s := f.State().Get(); s.Leader.Name != "a" {
			t.Errorf("a second later the follower says %v", s)
		}
		a.Resign()
		<-a.Done()
		f.Resign()
		<-f.Done()
	})
}
