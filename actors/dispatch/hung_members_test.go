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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// pipes is a dispatcher in virtual time: its members are at the other ends of pipes.
type pipes struct {
	t     *testing.T
	table *table
	d     *dispatch.Dispatcher
	// serve is what the member at an address does with a connection. Its context ends with the
	// test.
	serve           map[string]func(ctx context.Context, conn net.Conn)
	ctx             context.Context
	end             func()
	requests, conns sync.WaitGroup
}

func newPipes(t *testing.T, cfg dispatch.Config) *pipes {
	p := &pipes{t: t, table: newTable(), serve: map[string]func(context.Context, net.Conn){}}
	cfg.Locator, cfg.Logger = p.table, slog.New(slog.DiscardHandler)
	var err error
	if p.d, err = dispatch.New(cfg); err != nil {
		t.Fatal(err)
	}
	p.ctx, p.end = context.WithCancel(t.Context())
	p.d.DialWith(func(address string) net.Conn {
		near, far := net.Pipe()
		p.conns.Go(func() {
			defer far.Close()
			p.serve[address](p.ctx, far)
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

// Members that begin to hang one after the other: each of them holds up other broadcasts than the
// ones before. However many they are, the next broadcast finds a place.
func TestMembersThatBeginToHangOneAfterAnotherDoNotMakeBroadcastsBusy(t *testing.T) {
	staggered(t, dispatch.DefaultInFlight, 32)
}

// Nor do they where few requests may be under way at all.
func TestMembersThatHangLeavePlacesOfAFewRequests(t *testing.T) { staggered(t, 16, 4) }

// staggered has one member after the other hang, and sends so many broadcasts each time.
func staggered(t *testing.T, inFlight, each int) {
	synctest.Test(t, func(t *testing.T) {
		const hung = 8
		p := newPipes(t, dispatch.Config{Timeout: time.Minute, InFlight: inFlight,
			Fanout: dispatch.DefaultFanout})
		defer p.close()
		p.member("good", func(context.Context) {})
		hangs := make([]atomic.Bool, hung)
		for i := range hangs {
			p.member(fmt.Sprint("n", i), func(ctx context.Context) {
				if hangs[i].Load() {
					<-ctx.Done()
				}
			})
		}
		var answered sync.WaitGroup
		var mu sync.Mutex
		madeRoom := 0
		for i := range hangs {
			hangs[i].Store(true)
			for range each {
				answered.Add(1)
				p.broadcast(func(status int, g dispatch.Gathered, body string) {
					defer answered.Done()
					mu.Lock()
					defer mu.Unlock()
					if status != http.StatusMultiStatus || g.Answers["good"].Body != "here" {
						t.Errorf("while %d members hang: %d %s", i+1, status, body)
					}
					for _, why := range g.Missing {
						if strings.Contains(why, "needed the place") {
							madeRoom++
							break
						}
					}
				})
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		answered.Wait()
		if least := each * (hung - 2); madeRoom < least {
			t.Errorf("%d broadcasts made room, want %d", madeRoom, least)
		}
		if n := p.d.Broadcasts(); n != 0 {
			t.Errorf("%d places are taken and nothing is under way", n)
		}
	})
}

// A member that takes its time is heard, also while others hang.
func TestASlowMemberIsWaitedForBesideMembersThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{Timeout: time.Minute})
		defer p.close()
		slow := func(context.Context) { time.Sleep(5 * time.Second) }
		p.member("slow", slow)
		hangs := make([]atomic.Bool, 2)
		for i := range hangs {
			p.member(fmt.Sprint("n", i), func(ctx context.Context) {
				if hangs[i].Load() {
					<-ctx.Done()
				}
			})
		}
		for i := range hangs { // until all places are taken
			hangs[i].Store(true)
			for range 32 {
				p.broadcast(func(int, dispatch.Gathered, string) {})
			}
			time.Sleep(6 * time.Second)
		}
		if n := p.d.Broadcasts(); n != 64 {
			t.Errorf("%d places are taken", n)
		}
		for range 100 {
			p.broadcast(func(status int, g dispatch.Gathered, body string) {
				if g.Answers["slow"].Body != "here" {
					t.Errorf("%d %s", status, body)
				}
			})
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(6 * time.Second)
	})
}

// A broadcast has a second before it makes room. When all are younger, one more is refused: also
// where there were others before them.
func TestABroadcastIsNotCutShortAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{Timeout: time.Minute})
		defer p.close()
		var now atomic.Int32
		for i := range 2 {
			p.member(fmt.Sprint("n", i), func(context.Context) {
				if now.Load() == int32(i) {
					time.Sleep(900 * time.Millisecond)
				}
			})
		}
		p.broadcast(func(int, dispatch.Gathered, string) {})
		time.Sleep(2 * time.Second)
		for range 2 {
			for range 32 {
				p.broadcast(func(status int, _ dispatch.Gathered, body string) {
					if status >= 500 || strings.Contains(body, "needed the place") {
						t.Errorf("%d %s", status, body)
					}
				})
			}
			synctest.Wait()
			now.Add(1)
		}
		p.broadcast(func(status int, _ dispatch.Gathered, body string) {
			if status != http.StatusServiceUnavailable || !strings.HasPrefix(body, "64 broadcasts") {
				t.Errorf("one more: %d %s", status, body)
			}
		})
		time.Sleep(time.Second)
	})
}
