package transport

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Busy is a way to a Consul of so many answers a second. Requests wait for their turns in order.
// Those to the agent itself, which takes one at a time, have a queue of their own behind that. A
// write whose caller has given up is carried out all the same, when its turn comes.
type Busy struct {
	To http.RoundTripper
	// Answers and Agent are how many answers there are in a second, of all and of the agent's own.
	Answers, Agent int

	mu            sync.Mutex
	server, agent time.Time // when the last turn of each is over
	asked         int
	away          bool
	late          sync.WaitGroup
}

// Wait returns when nothing waits for its turn any more.
func (b *Busy) Wait() { b.late.Wait() }

var errAway = errors.New("connection refused")

// Asked is how many requests there were.
func (b *Busy) Asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// Away has each request fail until it is called with false.
func (b *Busy) Away(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// RoundTrip waits for the request's turn.
func (b *Busy) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.asked++
	if b.away {
		b.mu.Unlock()
		return nil, errAway
	}
	turn := turnOf(&b.server, b.Answers, time.Now())
	if strings.HasPrefix(r.URL.Path, "/v1/agent/") {
		turn = turnOf(&b.agent, b.Agent, turn)
	}
	b.mu.Unlock()
	timer := time.NewTimer(time.Until(turn))
	defer timer.Stop()
	select {
	case <-timer.C:
		return b.To.RoundTrip(r)
	case <-r.Context().Done():
	}
	if r.Method == http.MethodPut {
		late := r.Clone(context.WithoutCancel(r.Context()))
		b.late.Go(func() {
			time.Sleep(time.Until(turn))
			if resp, err := b.To.RoundTrip(late); err == nil {
				resp.Body.Close()
			}
		})
	}
	return nil, r.Context().Err()
}

// turnOf takes a turn in a queue of so many a second, from then on.
func turnOf(last *time.Time, rate int, from time.Time) time.Time {
	if last.Before(from) {
		*last = from
	}
	*last = last.Add(time.Second / time.Duration(rate))
	return *last
}
