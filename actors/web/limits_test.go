package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/hashicorp/consul/api"
)

// configPage is a page with a configuration, served on loopback as `run --http --backend consul`
// does.
type configPage struct {
	t       *testing.T
	address string
	consul  *api.Client
}

// serveConfigPage serves what the service has been configured to be before.
func serveConfigPage(t *testing.T, before ...*api.KVPair) *configPage {
	t.Helper()
	return serveGuardedConfigPage(t, "", before...)
}

// serveGuardedConfigPage asks for a token.
func serveGuardedConfigPage(t *testing.T, token string, before ...*api.KVPair) *configPage {
	t.Helper()
	consul := devconsul.New(devconsul.Config{})
	for _, pair := range before {
		if _, err := consul.Client().KV().Put(pair, nil); err != nil {
			t.Fatal(err)
		}
	}
	store, err := configstore.New(configstore.Config{Service: "demo", Client: consul.Client(),
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	site := showing(&fakeLooker{})
	site.config, site.Token = store, token
	server := httpserver.New(httpserver.Config{Handler: site.limited(Options{}), Conns: 256})
	ctx, cancel := context.WithCancel(t.Context())
	storing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var page, running sync.WaitGroup
	page.Go(func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := store.Run(storing); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = server.Close()
		page.Wait()
		stop()
		running.Wait()
		consul.Close()
	})
	wait, done := context.WithTimeout(ctx, 4*testkit.Patience)
	defer done()
	must(t, store.WaitLoaded(wait))
	return &configPage{t, ln.Addr().String(), consul.Client()}
}

// dial opens a connection on which the test writes what it likes.
func (p *configPage) dial() (net.Conn, *bufio.Reader) {
	p.t.Helper()
	c, err := net.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	return c, bufio.NewReader(c)
}

// raw sends a request as it is written and returns the status of the answer, 0 for none, and its
// headers and body.
func (p *configPage) raw(request string) (int, http.Header, string) {
	p.t.Helper()
	c, in := p.dial()
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		p.t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(body)
}

// in tells what Consul holds of a config key.
func (p *configPage) in(key string) (string, bool) {
	p.t.Helper()
	pair, _, err := p.consul.KV().Get("service/demo/config_data/"+key, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if pair == nil {
		return "", false
	}
	return string(pair.Value), true
}

func TestAPutWhoseBodyBreaksOffWritesNothingAndSaysSo(t *testing.T) {
	p := serveConfigPage(t)
	for name, request := range map[string]string{
		"half":      "Content-Length: 100\r\n\r\nhalf",
		"bad-chunk": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
		"bad-end":   "Transfer-Encoding: chunked\r\n\r\n4\r\nhalfXX",
	} {
		c, in := p.dial()
		if _, err := fmt.Fprintf(c, "PUT /config/%s HTTP/1.1\r\nHost: localhost\r\n%s", name,
			request); err != nil {
			t.Fatal(err)
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // no more will come; the answer may
		}
		resp, err := http.ReadResponse(in, nil)
		if err == nil && (resp.StatusCode != http.StatusBadRequest) {
			t.Errorf("%s: it was answered with %s", name, resp.Status)
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
		if v, ok := p.in(name); ok {
			t.Errorf("%s: %q was written", name, v)
		}
	}
}

// A page of another origin that has rebound its name to this address is of one origin with it, to a
// browser.
func TestAPageWhoseNameWasReboundReadsAndWritesNothing(t *testing.T) {
	p := serveConfigPage(t)
	put := func(host string) int {
		status, _, _ := p.raw("PUT /config/k HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" +
			host + "\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 5\r\n\r\nvalue")
		return status
	}
	if status := put("evil.example"); status != http.StatusForbidden {
		t.Errorf("a write for evil.example: %d", status)
	}
	if v, ok := p.in("k"); ok {
		t.Errorf("%q was written", v)
	}
	if status := put(p.address); status != http.StatusNoContent {
		t.Errorf("a write for the page's own address: %d", status)
	}
	for _, path := range []string{"/config/k", "/config/", "/", "/v1/status", "/v1/tree",
		"/v1/holders"} {
		if status, _, body := p.raw("GET " + path +
			" HTTP/1.1\r\nHost: evil.example\r\n\r\n"); status != http.StatusForbidden {
			t.Errorf("%s for evil.example: %d %.40q", path, status, body)
		}
		if status, _, _ := p.raw("GET " + path +
			" HTTP/1.1\r\nHost: localhost\r\n\r\n"); status != http.StatusOK {
			t.Errorf("%s for localhost: %d", path, status)
		}
	}
}
