package dispatch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// restingClient asks with a body that rests behind its first part, and tells what it is answered,
// and when.
func restingClient(ask func(*http.Request) (string, error), key string,
	rests time.Duration) (answer string, err error, after time.Duration) {
	body, more := io.Pipe()
	r, _ := http.NewRequest("POST", "https://x/a/", body)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	go func() {
		_, _ = io.WriteString(more, "body")
		time.Sleep(rests)
		_, _ = io.WriteString(more, "more")
		_ = more.Close()
	}()
	began := time.Now()
	answer, err = ask(r)
	after = time.Since(began)
	time.Sleep(rests)
	return answer, err, after
}

// Whatever a request comes to, its client is told so at once, also while it rests within its body.
func TestAClientThatRestsWithinItsBodyIsToldAtOnceWhatItCameTo(t *testing.T) {
	waits := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	dies := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 4))
		time.Sleep(time.Second)
		hangUp(w)
	}
	within := func(f func(context.Context) (context.Context,
		context.CancelFunc)) func(http.Handler) http.Handler {
		return func(d http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := f(r.Context())
				defer cancel()
				d.ServeHTTP(w, r.WithContext(ctx))
			})
		}
	}
	for name, c := range map[string]struct {
		host  func(http.Handler) http.Handler
		serve http.HandlerFunc
		says  string
	}{
		"a stop": {within(func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { stop(dispatch.ErrStopping) })
			return ctx, func() { stop(nil) }
		}), waits, "the dispatcher stops before member n1"},
		"its host's deadline": {within(func(ctx context.Context) (context.Context,
			context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}), waits, "the time for the request is over"},
		"its member's death": {within(context.WithCancel), dies, "lost before it answered"},
	} {
		t.Run(name, func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, h2 bool) {
				hostedWorld(t, h2, c.host, func(ask func(*http.Request) (string, error)) {
					text, err, after := restingClient(ask, "", 20*time.Second)
					if err != nil || !strings.Contains(text, c.says) || after > 2*time.Second {
						t.Errorf("after %v: %v %s", after, err, text)
					}
				}, c.serve)
			})
		})
	}
}

// Where it may be carried out twice, the next attempt begins at once, and gets what the client
// sends to the read that the one before has begun.
func TestARestingBodyIsSentAgainFromWhereItsClientGoesOn(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		asked := 0
		restingWorld(t, h2, func(ask func(*http.Request) (string, error)) {
			began := time.Now()
			text, err, after := restingClient(ask, "7", 20*time.Second)
			if want := "bodymore " + began.Format(time.TimeOnly); err != nil || text != want ||
				after != 20*time.Second {
				t.Errorf("after %v: %v %s, want %s", after, err, text, want)
			}
		}, func(w http.ResponseWriter, r *http.Request) {
			at := time.Now().Format(time.TimeOnly)
			if asked++; asked == 1 {
				_, _ = io.ReadFull(r.Body, make([]byte, 4))
				hangUp(w)
				return
			}
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s", body, at)
		})
	})
}

// What the next attempt comes to is not its client's fault, which rests within the read that the
// attempt before has begun.
func TestWhatTheNextAttemptComesToIsNotTheFaultOfAClientThatRests(t *testing.T) {
	timesOut := func(*pipes) (net.Conn, error) {
		time.Sleep(2 * time.Second)
		return nil, os.ErrDeadlineExceeded
	}
	for name, c := range map[string]struct {
		next   func(*pipes) (net.Conn, error)
		status int
		says   string
	}{
		"its host does not answer": {timesOut, http.StatusBadGateway, "cannot be connected to"},
		"its host does not answer, and its item is moved": {func(p *pipes) (net.Conn, error) {
			p.table.set("a", routing.Location{Member: "n2", Address: "n2:80", Token: 2})
			return timesOut(p)
		}, http.StatusOK, "bodymore"},
		"it takes nothing": {func(p *pipes) (net.Conn, error) {
			near, far := net.Pipe()
			p.conns.Go(func() {
				<-p.ctx.Done()
				_ = far.Close()
			})
			return near, nil
		}, http.StatusGatewayTimeout, "did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes(t, dispatch.Config{Timeout: 5 * time.Second})
				defer p.close()
				p.table.set("a", routing.Location{Member: "n1", Address: "n1:80", Token: 1})
				dials := 0
				p.d.DialOrFailWith(func(address string) (net.Conn, error) {
					if dials++; dials > 1 && address == "n1:80" {
						return c.next(p)
					}
					near, far := net.Pipe()
					p.conns.Go(func() {
						defer far.Close()
						r, err := http.ReadRequest(bufio.NewReader(far))
						if err != nil {
							return
						}
						if address == "n1:80" { // and dies
							_, _ = io.ReadFull(r.Body, make([]byte, 4))
							time.Sleep(time.Second)
							return
						}
						body, _ := io.ReadAll(r.Body)
						fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s",
							len(body), body)
					})
					return near, nil
				})
				status := 0
				text, _, _ := restingClient(func(r *http.Request) (string, error) {
					rec := httptest.NewRecorder()
					r.ContentLength = -1 // as it is at its server
					p.d.ServeHTTP(rec, r)
					_ = r.Body.Close() // as its server does
					status = rec.Code
					return rec.Body.String(), nil
				}, "7", 20*time.Second)
				if status != c.status || !strings.Contains(text, c.says) {
					t.Errorf("%d %s", status, text)
				}
			})
		})
	}
}

// What has begun to answer has got the request: it is not sent again.
func TestARestingBodyIsNotSentAgainWhereItsMemberDiesWithinItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{})
		defer p.close()
		asked := 0
		p.table.set("a", routing.Location{Member: "n1", Address: "n1:80", Token: 1})
		p.serve["n1:80"] = func(_ context.Context, conn net.Conn) {
			asked++
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				fmt.Fprint(conn, "HTTP/1.1 200 O")
			}
		}
		body, more := io.Pipe()
		r := httptest.NewRequest("POST", "/a/", body)
		r.Header.Set("Idempotency-Key", "7")
		rec := httptest.NewRecorder()
		p.d.ServeHTTP(rec, r)
		_ = more.Close()
		if asked != 1 || rec.Code != http.StatusBadGateway {
			t.Errorf("asked %d times: %d %s", asked, rec.Code, rec.Body)
		}
	})
}

// The rest of a body that nobody wants any more has its time to come, and no more than that: also
// where it was being read when the answer ended.
func TestAfterAnEarlyAnswerTheConnectionOfAClientThatRestsEnds(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Timeout, c.Idle = time.Second, time.Second
	})
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 4))
		time.Sleep(50 * time.Millisecond) // by then more is read
		ctrl := http.NewResponseController(rw)
		_ = ctrl.EnableFullDuplex()
		rw.Header().Set("Connection", "close")
		rw.WriteHeader(http.StatusUnauthorized)
		_ = ctrl.Flush()
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "POST /a/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nbody")
	answers(t, in, http.StatusUnauthorized)
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("its connection is open still: %v", err)
	}
	w.idle("its place is free")
}

// At the end a read of a client that sends is waited for, and one of a client that rests is ended.
func TestAReadIsEndedOnlyWhereItsClientRests(t *testing.T) {
	for rests, stopped := range map[time.Duration]bool{10 * time.Millisecond: false,
		time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			src, client := io.Pipe()
			body := dispatch.NewReplayBody(src)
			p := body.Reader()
			go func() { _, _ = p.Read(make([]byte, 1)) }()
			synctest.Wait()
			sends := time.AfterFunc(rests, func() { _, _ = client.Write([]byte("x")) })
			defer sends.Stop()
			began, ended := time.Now(), false
			body.Close(func() {
				ended = true
				_ = src.Close()
			})
			if took := time.Since(began); ended != stopped || took > 20*time.Millisecond {
				t.Errorf("one that rests for %v was ended: %v, after %v", rests, ended, took)
			}
		})
	}
}
