package dispatch_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// stopped is what a request is told when the server stops while it waits. With its key it is sent
// again when its connection is lost.
func (p *pipes) stopped(path, key string) *httptest.ResponseRecorder {
	ctx, stop := context.WithCancelCause(p.ctx)
	rec := httptest.NewRecorder()
	r := httptest.NewRequest("POST", path, nil).WithContext(ctx)
	r.Header.Set("Idempotency-Key", key)
	p.requests.Go(func() { p.d.ServeHTTP(rec, r) })
	synctest.Wait()
	stop(dispatch.ErrStopping)
	p.requests.Wait()
	return rec
}

// answersOnce is a member that reads one request of each connection, has the item move on, and
// answers.
func (p *pipes) answersOnce(id, answer string, next any) routing.Location {
	p.serve[id+":80"] = func(_ context.Context, conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			p.table.set("a", next)
			fmt.Fprint(conn, answer)
		}
	}
	return routing.Location{Member: id, Address: id + ":80", Token: 1}
}

// At a stop a request is told whether anybody may have carried it out, wherever it was sent to and
// whatever it waits for by then.
func TestAtAStopARequestIsToldWhetherItMayHaveBeenCarriedOut(t *testing.T) {
	const notMine = "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n"
	refuses := routing.Location{Member: "n3", Address: "n3:80", Token: 3}
	for name, c := range map[string]struct {
		first func(p *pipes) any // where the item is
		lost  string             // by whom it may have been carried out; empty: by nobody
	}{
		"nobody has the item": {func(*pipes) any { return routing.ErrMoving }, ""},
		"its member hangs": {func(p *pipes) any {
			p.member("n1", func(ctx context.Context) { <-ctx.Done() })
			return routing.Location{Member: "n1", Address: "n1:80", Token: 1}
		}, "n1"},
		"its member takes no connection": {func(*pipes) any { return refuses }, ""},
		"it was not its member's to have": {func(p *pipes) any {
			return p.answersOnce("n1", notMine, routing.ErrMoving)
		}, ""},
		"it was lost, and its item moves": {func(p *pipes) any {
			return p.answersOnce("n1", "", routing.ErrMoving)
		}, "n1"},
		"it was lost, and the next member takes no connection": {func(p *pipes) any {
			return p.answersOnce("n1", "", refuses)
		}, "n1"},
		"it was lost, and not the next member's to have": {func(p *pipes) any {
			return p.answersOnce("n1", "", p.answersOnce("n2", notMine, routing.ErrMoving))
		}, "n1"},
		"the connection is not there yet": {func(p *pipes) any {
			p.connecting = func(ctx context.Context, _ string) { <-ctx.Done() }
			return refuses
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes(t, dispatch.Config{Wait: time.Hour})
				defer p.close()
				p.table.set("a", c.first(p))
				rec := p.stopped("/a/", "7")
				status, reason, says := 503, dispatch.ReasonNotReady, "nobody has carried"
				if c.lost != "" {
					status, reason, says = 502, dispatch.ReasonLost, "before member "+c.lost
				}
				if rec.Code != status || rec.Header().Get(dispatch.HeaderReason) != reason ||
					!strings.Contains(rec.Body.String(), says) {
					t.Errorf("%d %v %s", rec.Code, rec.Header(), rec.Body)
				}
			})
		})
	}
}

// So is a broadcast: one that is not connected yet has not been carried out.
func TestAtAStopABroadcastIsToldWhetherItMayHaveBeenCarriedOut(t *testing.T) {
	for connects, want := range map[bool]int{false: 503, true: 502} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipes(t, dispatch.Config{})
			defer p.close()
			for _, id := range []string{"n1", "n2"} {
				p.member(id, func(ctx context.Context) { <-ctx.Done() })
			}
			p.connecting = func(ctx context.Context, address string) {
				if !connects || address == "n2:80" {
					<-ctx.Done()
				}
			}
			if rec := p.stopped("/*/", "7"); rec.Code != want {
				t.Errorf("one is asked: %v: %d %s", connects, rec.Code, rec.Body)
			}
		})
	}
}

// What was read on a connection that had been kept may have been carried out, also when net/http
// sends it again by itself, and the next connection is refused. It does so for an empty key, too.
func TestAtAStopWhatAMemberHasReadBeforeItDiedMayHaveBeenCarriedOut(t *testing.T) {
	for _, path := range []string{"/a/", "/*/"} {
		for _, key := range []string{"7", ""} {
			t.Run(path+key, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPipes(t, dispatch.Config{})
					defer p.close()
					p.owner("a", nil)
					read := 0
					p.serve["a:80"] = func(_ context.Context, conn net.Conn) {
						in := bufio.NewReader(conn)
						for ; read < 2; read++ {
							if _, err := http.ReadRequest(in); err != nil {
								return
							}
							if read == 0 {
								fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere")
							}
						}
						p.serve["a:80"] = nil
					}
					p.ask("a", 1)
					p.requests.Wait()
					p.member("n2", nil)
					p.connecting = func(ctx context.Context, address string) {
						if address == "n2:80" {
							<-ctx.Done()
						}
					}
					rec := p.stopped(path, key)
					if read != 2 || rec.Code != 502 ||
						rec.Header().Get(dispatch.HeaderReason) != dispatch.ReasonLost {
						t.Errorf("%d were read: %d %v %s", read, rec.Code, rec.Header(), rec.Body)
					}
				})
			})
		}
	}
}
