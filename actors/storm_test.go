package actors_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// busy is a way to a Consul of so many answers a second. Requests wait for their turns in order.
// Those to the agent itself, which takes one at a time, have a queue of their own behind that. A
// write whose caller has given up is carried out all the same, when its turn comes.
type busy struct {
	to         http.RoundTripper
	all, agent time.Duration // what each answer takes, and each of the agent's own

	mu         sync.Mutex
	free, idle time.Time // when the last turn of each is over
	away       bool
	late       sync.WaitGroup
}

func (b *busy) goes(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// RoundTrip waits for the request's turn.
func (b *busy) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	if b.away {
		b.mu.Unlock()
		return nil, errors.New("connection refused")
	}
	now := time.Now()
	b.free = actor.Latest(b.free, now).Add(b.all)
	turn := b.free
	if strings.HasPrefix(r.URL.Path, "/v1/agent/") {
		b.idle = actor.Latest(b.idle, turn).Add(b.agent)
		turn = b.idle
	}
	b.mu.Unlock()
	if store.Pause(r.Context(), turn.Sub(now)) {
		return b.to.RoundTrip(r)
	}
	if r.Method == http.MethodPut {
		own := r.Clone(context.WithoutCancel(r.Context()))
		b.late.Go(func() {
			time.Sleep(time.Until(turn))
			if resp, err := b.to.RoundTrip(own); err == nil {
				resp.Body.Close()
			}
		})
	}
	return nil, r.Context().Err()
}

// Members that start at once, or come back at once, at a Consul that is slower than all of them
// together would like, are whole soon. They do not keep it busy by what they do because it is busy.
func TestManyMembersAreWholeSoonAtABusyConsul(t *testing.T) {
	const members, items = 50, 1000
	for name, answers := range map[string]struct{ all, agent time.Duration }{
		"a server of 150 answers a second": {time.Second / 150, time.Second / 150},
		"an agent of 20 answers a second":  {time.Millisecond, time.Second / 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := devconsul.New(devconsul.Config{})
				defer server.Close()
				way := &busy{to: server.RoundTripper(), all: answers.all, agent: answers.agent}
				for i := range items {
					if _, err := server.Client().KV().Put(&api.KVPair{
						Key: fmt.Sprintf("service/storm/workload/%d", i)}, nil); err != nil {
						t.Fatal(err)
					}
				}
				ctx, stop := context.WithCancel(t.Context())
				var ended sync.WaitGroup
				var running, starts atomic.Int64
				var all []*actors.Coordinator
				for i := range members {
					client, err := store.NewClient(&api.Config{Address: "consul.test",
						HttpClient: &http.Client{Transport: way}})
					if err != nil {
						t.Fatal(err)
					}
					m, err := actors.New(actors.Config{Service: "storm", ID: fmt.Sprintf("m%d", i),
						Client: client, Logger: slog.New(slog.DiscardHandler),
						Work: func(ctx context.Context, _ actors.Item) error {
							starts.Add(1)
							running.Add(1)
							defer running.Add(-1)
							<-ctx.Done()
							return nil
						}})
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, m)
					ended.Go(func() {
						if err := m.Run(ctx); err != nil {
							t.Error(err)
						}
					})
				}
				defer func() {
					way.goes(false)
					stop()
					ended.Wait()
					way.late.Wait()
				}()
				sessions := func() (n int) {
					for _, m := range all {
						n += m.Session().Get().Count
					}
					return n
				}
				whole := func(what string) {
					begin := time.Now()
					for running.Load() != items {
						if time.Sleep(100 * time.Millisecond); time.Since(begin) > time.Minute {
							t.Fatalf("%s: %d of %d items run after a minute; %d sessions were opened",
								what, running.Load(), items, sessions())
						}
					}
					t.Logf("%s: whole after %v; %d sessions, %d starts", what,
						time.Since(begin), sessions(), starts.Load())
				}
				whole("start")
				time.Sleep(time.Minute)
				had, before := sessions(), starts.Load()
				time.Sleep(3 * time.Minute)
				if n := sessions(); n != had || had > 3*members/2 {
					t.Errorf("%d sessions were opened, and %d more in 3 minutes", had, n-had)
				}
				if more := starts.Load() - before; more > items/10 || running.Load() < items*9/10 {
					t.Errorf("work that runs was started %d times; %d items run", more,
						running.Load())
				}
				way.goes(true)
				time.Sleep(time.Minute)
				way.goes(false)
				whole("back")
			})
		})
	}
}
