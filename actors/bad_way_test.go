package actors_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// badWay is a way to Consul on which transactions arrive without an answer, late without an answer,
// or twice; those that lock a key (takes, epochs, registrations) ten times as often.
type badWay struct {
	to   http.RoundTripper
	late *sync.WaitGroup

	mu   sync.Mutex
	rnd  *rand.Rand
	good bool
}

func (w *badWay) RoundTrip(r *http.Request) (*http.Response, error) {
	body := transport.Txn(r)
	if body == "" {
		return w.to.RoundTrip(r)
	}
	often := 0.03
	if strings.Contains(body, `"Verb":"lock"`) ||
		strings.Contains(body, `"Verb":"cas","Key":"service/demo/leader"`) {
		often = 0.3
	}
	w.mu.Lock()
	p, delay, good := w.rnd.Float64()/often, time.Duration(w.rnd.IntN(20_000))*time.Millisecond,
		w.good
	w.mu.Unlock()
	if good || p >= 3 {
		return w.to.RoundTrip(r)
	}
	if p >= 1 {
		again := transport.Copy(r)
		w.late.Go(func() {
			time.Sleep(delay)
			transport.Again(w.to, again)
		})
	}
	switch {
	case p < 1:
		transport.Again(w.to, r)
		return nil, errors.New("the answer is lost")
	case p < 2:
		return nil, errors.New("it is late")
	}
	return w.to.RoundTrip(r)
}

// Two processes for most ids, of different TTLs, whose sessions are ended early while they are cut
// off or not; and the writes by which they take the place of one another are lost, late or doubled.
// The cluster of every test sees to it that no item and no Lead is begun twice.
func TestLostLateAndDoubledWritesAtEarlyEndsBeginNothingTwice(t *testing.T) {
	seeds := 30
	if raceDetector {
		seeds = 2
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			run(t, func(c *cluster) {
				rnd, late := rand.New(rand.NewPCG(seed, 1)), sync.WaitGroup{}
				defer late.Wait()
				c.hearsOfTheEventLog() // its reading may be late twice in a row
				var all []*member      // of an id the newest only is among the cluster's
				var ways []*badWay
				defer func() {
					for _, m := range all {
						m.cancel()
						<-m.done
					}
				}()
				start := func(i int) {
					n := len(all)
					w := &badWay{to: c.consul.RoundTripper(), late: &late,
						rnd: rand.New(rand.NewPCG(seed, uint64(n+2)))}
					ways, c.way = append(ways, w), w
					all = append(all, c.start(fmt.Sprintf("n%d", i), func(cfg *actors.Config) {
						cfg.TTL = []time.Duration{10, 10, 15, 25}[i] * time.Second
						p := *cfg.Process
						p.Host = fmt.Sprintf("host-%d", n)
						cfg.Process, cfg.Lead = &p, c.duty(fmt.Sprintf("%s of process %d", cfg.ID,
							n))
					}))
				}
				c.addWork(c.items(8)...)
				for i := range 4 {
					start(i)
				}
				time.Sleep(10 * time.Second)
				for range 60 {
					m := all[rnd.IntN(len(all))]
					session := m.c.Session().Get().ID
					switch p := rnd.IntN(8); {
					case p < 4 && session != "":
						if p > 0 {
							m.net.Cut(errors.New("connection refused"))
						}
						if err := c.store.DestroySession(c.t.Context(), session); err != nil {
							t.Fatal(err)
						}
					case p == 7 && len(all) < 9:
						start(rnd.IntN(4))
					default:
						m.net.Cut(nil)
					}
					time.Sleep(time.Duration(rnd.IntN(6000)) * time.Millisecond)
				}
				for i, w := range ways {
					w.mu.Lock()
					w.good = true
					w.mu.Unlock()
					all[i].net.Cut(nil)
				}
				c.await("all work", 150*time.Second, c.runs(c.items(8)))
			})
		})
	}
}
