//go:build linux && coordd_long

package e2e_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// proxy stands between a member and Consul and counts what passes.
type proxy struct {
	addr string

	mu      sync.Mutex
	seen    []string // method and path of each request
	polls   int      // long polls under way
	highest int      // the most polls at one time
	conns   int      // connections to it
}

func newProxy(t *testing.T, consul string) *proxy {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: consul})
	forward.Transport = transport
	forward.ErrorLog = log.New(io.Discard, "", 0) // clients that hang up
	p := &proxy{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		poll := r.Method == http.MethodGet && r.URL.Query().Has("index")
		p.mu.Lock()
		p.seen = append(p.seen, r.Method+" "+r.URL.Path)
		if poll {
			p.polls++
			p.highest = max(p.highest, p.polls)
		}
		p.mu.Unlock()
		defer func() {
			if poll {
				p.mu.Lock()
				p.polls--
				p.mu.Unlock()
			}
		}()
		forward.ServeHTTP(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch state {
		case http.StateNew:
			p.conns++
		case http.StateClosed, http.StateHijacked:
			p.conns--
		}
	}
	server.Start()
	p.addr = strings.TrimPrefix(server.URL, "http://")
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

// forget starts the count anew.
func (p *proxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.highest = nil, p.polls
}

// connections is how many clients hold now.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns
}

func (p *proxy) count() (seen []string, polls, highest int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen), p.polls, p.highest
}
