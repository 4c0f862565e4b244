package actors_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// storm is members of one service at one Consul that is busy.
type storm struct {
	t       *testing.T
	way     *transport.Busy
	all     []*actors.Coordinator
	items   int64
	running atomic.Int64
	starts  atomic.Int64
}

func (s *storm) sessions() (n int) {
	for _, m := range s.all {
		n += m.Session().Get().Count
	}
	return n
}

// whole waits until all items run, and returns how long that took and how many requests.
func (s *storm) whole(what string, limit time.Duration) {
	s.t.Helper()
	begin, asked := time.Now(), s.way.Asked()
	for s.running.Load() != s.items {
		if time.Since(begin) > limit {
			s.t.Fatalf("%s: %d of %d items run after %v and %d requests; %d sessions were opened",
				what, s.running.Load(), s.items, limit, s.way.Asked()-asked, s.sessions())
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Logf("%s: whole after %v and %d requests for each member; %d sessions, %d starts", what,
		time.Since(begin), (s.way.Asked()-asked)/len(s.all), s.sessions(), s.starts.Load())
}

// Members that start at once, or come back at once, at a Consul that is slower than all of them
// together would like, are whole soon. They do not keep it busy by what they do because it is busy.
func TestManyMembersAreWholeSoonAtABusyConsul(t *testing.T) {
	const members, perMember = 50, 20
	for name, answers := range map[string]struct{ all, agent int }{
		"a server of 100 answers a second": {100, 100},
		"an agent of 20 answers a second":  {1000, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := devconsul.New(devconsul.Config{})
				defer server.Close()
				s := &storm{t: t, items: members * perMember,
					way: &transport.Busy{To: server.RoundTripper(), Answers: answers.all,
						Agent: answers.agent}}
				admin := server.Client()
				for i := range s.items {
					if _, err := admin.KV().Put(&api.KVPair{
						Key: fmt.Sprintf("service/storm/workload/%d", i)}, nil); err != nil {
						t.Fatal(err)
					}
				}
				ctx, stop := context.WithCancel(t.Context())
				var ended sync.WaitGroup
				for i := range members {
					client, err := store.NewClient(&api.Config{Address: "consul.test",
						HttpClient: &http.Client{Transport: s.way}})
					if err != nil {
						t.Fatal(err)
					}
					m, err := actors.New(actors.Config{Service: "storm", ID: fmt.Sprintf("m%d", i),
						Client: client, Logger: slog.New(slog.DiscardHandler),
						Work: func(ctx context.Context, _ actors.Item) error {
							s.starts.Add(1)
							s.running.Add(1)
							defer s.running.Add(-1)
							<-ctx.Done()
							return nil
						}})
					if err != nil {
						t.Fatal(err)
					}
					s.all = append(s.all, m)
					ended.Go(func() {
						if err := m.Run(ctx); err != nil {
							t.Error(err)
						}
					})
				}
				defer func() {
					s.way.Away(false)
					stop()
					ended.Wait()
					s.way.Wait()
				}()
				s.whole("start", time.Minute)
				time.Sleep(time.Minute)
				asked, starts, had := s.way.Asked(), s.starts.Load(), s.sessions()
				time.Sleep(3 * time.Minute)
				if n := s.sessions(); n != had || had > 3*members/2 {
					t.Errorf("%d sessions were opened, and %d more in 3 minutes", had, n-had)
				}
				more := s.starts.Load() - starts
				if more > s.items/10 || s.running.Load() < s.items*9/10 {
					t.Errorf("work that runs was started anew %d times; %d items run", more,
						s.running.Load())
				}
				t.Logf("%d requests in 3 minutes", s.way.Asked()-asked)
				s.way.Away(true)
				time.Sleep(time.Minute)
				s.way.Away(false)
				s.whole("back", time.Minute)
			})
		})
	}
}
