package transport

import (
	"net/http"
	"sync"
)

// Astray is a way on which chosen requests, or the answers to them, go astray. Their senders see
// ErrReset.
type Astray struct {
	To http.RoundTripper

	mu         sync.Mutex
	hold, lose chosen
	held       []*http.Request
	lost       int
}

// chosen are the next requests that match.
type chosen struct {
	n     int
	match func(*http.Request) bool
}

// takes tells whether a request is one of them.
func (c *chosen) takes(r *http.Request) bool {
	if c.n == 0 || !c.match(r) {
		return false
	}
	c.n--
	return true
}

// Writes picks the requests that write.
func Writes(r *http.Request) bool { return r.Method != http.MethodGet }

// Hold keeps the next n requests that match back, until Deliver.
func (a *Astray) Hold(n int, match func(*http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hold = chosen{n, match}
}

// Lose loses the answers to the next n requests that match and succeed.
func (a *Astray) Lose(n int, match func(*http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lose = chosen{n, match}
}

// Held is how many requests are kept back.
func (a *Astray) Held() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.held)
}

// Lost is how many answers were lost so far.
func (a *Astray) Lost() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}

// Deliver brings what was kept back, in order, and returns the status of each answer: 0 for none.
func (a *Astray) Deliver() (statuses []int) {
	a.mu.Lock()
	held := a.held
	a.held = nil
	a.mu.Unlock()
	for _, r := range held {
		statuses = append(statuses, Again(a.To, r))
	}
	return statuses
}

// RoundTrip carries a request, unless it goes astray.
func (a *Astray) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	held := a.hold.takes(r)
	if held {
		a.held = append(a.held, Copy(r))
	}
	a.mu.Unlock()
	if held {
		return nil, ErrReset
	}
	asked := Copy(r) // its body can be read when the answer has come
	resp, err := a.To.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.lose.takes(asked) {
		return resp, nil
	}
	resp.Body.Close()
	a.lost++
	return nil, ErrReset
}
