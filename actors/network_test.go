package actors_test

import (
	"net/http"
	"sync"
)

// network is one member's way to Consul, and where it is broken.
type network struct {
	to http.RoundTripper

	mu    sync.Mutex
	err   error         // every request is refused
	mute  chan struct{} // requests are accepted and not answered until it is closed
	count map[string]int
}

func (n *network) client() *http.Client { return &http.Client{Transport: n} }

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	err, mute, to := n.err, n.mute, n.to
	if n.count == nil {
		n.count = map[string]int{}
	}
	n.count[r.Method+" "+r.URL.Path]++
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := waitFor(mute, r); err != nil {
		return nil, err
	}
	resp, answerErr := to.RoundTrip(r)
	n.mu.Lock()
	err, mute = n.err, n.mute
	n.mu.Unlock()
	// while it was under way: the answer stays where it is
	if frozen := waitFor(mute, r); frozen != nil {
		if resp != nil {
			resp.Body.Close()
		}
		return nil, frozen
	}
	if err != nil { // cut off while it was under way: the answer does not arrive
		if resp != nil {
			resp.Body.Close()
		}
		return nil, err
	}
	return resp, answerErr
}

// waitFor waits until a frozen way thaws.
func waitFor(mute chan struct{}, r *http.Request) error {
	if mute == nil {
		return nil
	}
	select {
	case <-mute:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// via sends everything through another way from now on.
func (n *network) via(to http.RoundTripper) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to = to
}

// cut refuses every request from now on; nil mends it.
func (n *network) cut(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// freeze accepts requests and answers none until thaw, those that are under way included.
func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mute = make(chan struct{})
}

func (n *network) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.mute)
	n.mute = nil
}

// requests returns how often each call was made since the last time.
func (n *network) requests() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.count
	n.count = nil
	return c
}
