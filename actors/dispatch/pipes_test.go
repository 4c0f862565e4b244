package dispatch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// pipes is a dispatcher in virtual time: its members are at the other ends of pipes.
type pipes struct {
	t     *testing.T
	table *table
	d     *dispatch.Dispatcher
	// serve is what the member at an address does with a connection. Its context ends with the
	// test. Other addresses refuse connections.
	serve map[string]func(ctx context.Context, conn net.Conn)
	// connecting waits before there is a connection to an address
	connecting      func(ctx context.Context, address string)
	ctx             context.Context
	end             func()
	requests, conns sync.WaitGroup
}

func newPipes(t *testing.T, cfg dispatch.Config) *pipes {
	p := &pipes{t: t, table: newTable(), serve: map[string]func(context.Context, net.Conn){},
		connecting: func(context.Context, string) {}}
	cfg.Locator, cfg.Logger = p.table, slog.New(slog.DiscardHandler)
	var err error
	if p.d, err = dispatch.New(cfg); err != nil {
		t.Fatal(err)
	}
	p.ctx, p.end = context.WithCancel(t.Context())
	p.d.DialWith(func(address string) net.Conn {
		p.connecting(p.ctx, address)
		serve := p.serve[address]
		if serve == nil || p.ctx.Err() != nil { // at the end nobody waits for one any more
			return nil
		}
		near, far := net.Pipe()
		p.conns.Go(func() {
			defer far.Close()
			serve(p.ctx, far)
		})
		return near
	})
	return p
}

// close has members that hang go on, and waits for all that is under way.
func (p *pipes) close() {
	p.end()
	p.requests.Wait()
	p.d.CloseIdleConnections()
	p.conns.Wait()
}

// member registers one that answers a request after it has waited as it is told to.
func (p *pipes) member(id string, wait func(ctx context.Context)) {
	address := id + ":80"
	p.table.members = append(p.table.members, routing.Member{ID: id, Address: address})
	p.serve[address] = func(ctx context.Context, conn net.Conn) {
		for in := bufio.NewReader(conn); ; {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			wait(ctx)
			if _, err := fmt.Fprint(conn,
				"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere"); err != nil {
				return
			}
		}
	}
}

// broadcast sends one, and tells what came of it.
func (p *pipes) broadcast(done func(status int, g dispatch.Gathered, body string)) {
	p.requests.Go(func() {
		rec := httptest.NewRecorder()
		p.d.ServeHTTP(rec, httptest.NewRequest("GET", "/*/", nil))
		var g dispatch.Gathered
		_ = json.Unmarshal(rec.Body.Bytes(), &g) // a refusal is none
		done(rec.Code, g, rec.Body.String())
	})
}
