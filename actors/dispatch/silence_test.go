package dispatch_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// A member may take all the time that it has for its answer, also where its connection was used a
// moment before: deadlines are not moved for every byte.
func TestAMemberMayBeSilentForAllOfItsTime(t *testing.T) {
	for _, since := range []time.Duration{0, time.Second, 7 * time.Second, 50 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const idle = time.Minute
			near, far := net.Pipe()
			c, begin := dispatch.MemberConn(near, idle, idle)
			var member sync.WaitGroup
			defer member.Wait()
			defer c.Close()
			answer := func(after time.Duration) {
				begin()
				member.Go(func() {
					_, _ = io.ReadFull(far, make([]byte, 3))
					time.Sleep(after)
					_, _ = far.Write([]byte("yes"))
				})
				if _, err := c.Write([]byte("ask")); err != nil {
					t.Fatalf("%v after the first request: %v", since, err)
				}
				if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
					t.Errorf("%v after the first request, an answer after %v: %v", since, after,
						err)
				}
			}
			answer(0)
			time.Sleep(since)
			answer(idle - time.Millisecond)
		})
	}
}

// deadlines records those that a client's connection is given.
type deadlines struct {
	http.ResponseWriter
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// A client has all that it has not used of its time to send the next part of its body, and to take
// the next part of its answer.
func TestAClientMayBeSilentForAllOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 40 * time.Second
		w := &deadlines{ResponseWriter: httptest.NewRecorder()}
		body, sender := io.Pipe()
		r := httptest.NewRequest(http.MethodPost, "/a/", body)
		c := dispatch.Client(w, r, time.Hour, timeout)
		parts := []time.Duration{0, time.Second, 3 * time.Second, 30 * time.Second, time.Second}
		go func() {
			for _, after := range parts {
				time.Sleep(after)
				_, _ = sender.Write([]byte("x"))
			}
		}()
		for i, left := 0, timeout; i < len(parts); i++ {
			begin := time.Now()
			if _, err := c.Read(make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
			if has := w.read.Sub(begin); has < left {
				t.Errorf("part %d: it has %v from when it is waited for, not %v", i, has, left)
			}
			left -= parts[i]
		}
		for i, after := range parts {
			time.Sleep(after)
			if _, err := c.Write(bytes.Repeat([]byte{'x'}, 64)); err != nil {
				t.Fatal(err)
			}
			if has := time.Until(w.write); has < timeout {
				t.Errorf("piece %d: it has %v to take it, not %v", i, has, timeout)
			}
		}
	})
}

// The server says 100 Continue when the body is first read, which may be behind the member's own.
func TestAClientThatIsToldToContinueHasAllOfItsTimeForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 40 * time.Second
		w := &deadlines{ResponseWriter: finalAnswer{httptest.NewRecorder()}}
		r := httptest.NewRequest(http.MethodPost, "/a/", strings.NewReader("x"))
		r.Header.Set("Expect", "100-continue")
		c := dispatch.Client(w, r, time.Hour, timeout)
		c.WriteHeader(http.StatusContinue)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(timeout / 10)
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if has := time.Until(w.write); has < timeout {
			t.Errorf("it has %v to take its answer, not %v", has, timeout)
		}
	})
}

// In HTTP/2, where a deadline counts while nobody waits, none is left behind a read, whatever the
// client expects.
func TestBehindAReadAnHTTP2StreamHasNoDeadline(t *testing.T) {
	for _, expect := range []string{"", "100-continue", "something else"} {
		w := &deadlines{ResponseWriter: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodPost, "/a/", strings.NewReader("x"))
		r.ProtoMajor, r.ProtoMinor = 2, 0
		r.Header.Set("Expect", expect)
		c := dispatch.Client(w, r, time.Hour, time.Minute)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if !w.read.IsZero() || !w.write.IsZero() {
			t.Errorf("%q: its stream ends at %v, %v", expect, w.read, w.write)
		}
	}
}

// finalAnswer is a client that does not look at what comes before its answer.
type finalAnswer struct{ *httptest.ResponseRecorder }

func (w finalAnswer) WriteHeader(status int) {
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
	}
}

// A member that has begun to answer may take its time with the rest of the body, also where the
// answer came together with what goes before it.
func TestAMemberThatHasAnsweredMayTakeItsTimeForTheBody(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
	for name, begin := range map[string]string{
		"alone":            head,
		"behind a hint":    "HTTP/1.1 103 Early Hints\r\n\r\n" + head,
		"behind two hints": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 2) + head,
	} {
		synctest.Test(t, func(t *testing.T) {
			const timeout, size = 30 * time.Second, 1 << 20
			p := newPipes(t, dispatch.Config{Timeout: timeout, Idle: 10 * timeout})
			defer p.close()
			p.table.set("a", routing.Location{Member: "n1", Address: "n1:80", Token: 1})
			p.serve["n1:80"] = func(_ context.Context, conn net.Conn) {
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprint(conn, begin)
				first, _ := io.CopyN(io.Discard, r.Body, size/2)
				time.Sleep(2 * timeout)
				rest, err := io.Copy(io.Discard, r.Body)
				if err != nil || first+rest != size {
					t.Errorf("%s: %d bytes of the body came, %v", name, first+rest, err)
				}
				fmt.Fprint(conn, "here")
			}
			rec := httptest.NewRecorder()
			p.d.ServeHTTP(finalAnswer{rec}, httptest.NewRequest("POST", "/a/",
				strings.NewReader(strings.Repeat("x", size))))
			if rec.Code != http.StatusOK || rec.Body.String() != "here" {
				t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
			}
		})
	}
}

// A hint is no answer: behind it a member that takes nothing of the body has no more time, also
// where its connection was used a while before.
func TestAHintGivesAMemberThatTakesNothingNoMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		p := newPipes(t, dispatch.Config{Timeout: timeout, Idle: 10 * timeout})
		defer p.close()
		p.table.set("a", routing.Location{Member: "n1", Address: "n1:80", Token: 1})
		p.serve["n1:80"] = func(_ context.Context, conn net.Conn) {
			in := bufio.NewReader(conn)
			if _, err := http.ReadRequest(in); err != nil {
				t.Error(err)
			}
			fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			if _, err := http.ReadRequest(in); err != nil {
				t.Error(err)
			}
			for range 100 {
				time.Sleep(timeout / 3)
				fmt.Fprint(conn, "HTTP/1.1 103 Early Hints\r\n\r\n")
			}
		}
		p.d.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/a/", nil))
		time.Sleep(timeout)
		rec, begin := httptest.NewRecorder(), time.Now()
		p.d.ServeHTTP(finalAnswer{rec}, httptest.NewRequest("POST", "/a/",
			strings.NewReader(strings.Repeat("x", 1<<20))))
		if took := time.Since(begin); rec.Code != http.StatusGatewayTimeout || took > timeout {
			t.Errorf("%d %s after %v", rec.Code, rec.Body, took)
		}
	})
}

// An answer may be heard of when its connection has the next request already.
func TestAnAnswerIsThatOfItsOwnRequest(t *testing.T) {
	const idle, taking = time.Hour, time.Minute
	for _, next := range []bool{false, true} { // is answered
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe() // nobody takes anything
			defer far.Close()
			c, begin := dispatch.MemberConn(near, idle, taking)
			defer c.Close()
			first, second := begin(), begin()
			if next {
				second()
			}
			first()
			start := time.Now()
			_, err := c.Write([]byte("ask"))
			if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) ||
				(took == taking) == next {
				t.Errorf("the next one is answered: %v; %v after %v", next, err, took)
			}
		})
	}
}

// endsBody is a client whose body ends while its answer begins.
type endsBody struct {
	*deadlines
	end func()
}

func (w endsBody) Header() http.Header { w.end(); return w.deadlines.Header() }

// Behind a body that has ended the server listens for the client's going, and takes a deadline for
// that: whenever the body ends, none is left.
func TestBehindABodyThatHasEndedThereIsNoDeadline(t *testing.T) {
	w := &deadlines{ResponseWriter: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/a/", io.NopCloser(strings.NewReader("x")))
	var c interface {
		http.ResponseWriter
		io.Reader
	}
	c = dispatch.Client(endsBody{w, sync.OnceFunc(func() { _, _ = io.ReadAll(c) })}, r,
		5*time.Minute, time.Minute)
	c.WriteHeader(http.StatusOK)
	if !w.read.IsZero() {
		t.Errorf("its client counts as gone in %v, whatever is answered", time.Until(w.read))
	}
}
