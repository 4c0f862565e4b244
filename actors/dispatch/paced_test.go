package dispatch_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/internal/testkit"
)

// peer is a client that takes so long for each part of its body and of its answer, of whatever
// size, and that is waited for until the deadline that it was given.
type peer struct {
	http.ResponseWriter
	takes       time.Duration
	read, write time.Time
}

func (p *peer) SetReadDeadline(t time.Time) error  { p.read = t; return nil }
func (p *peer) SetWriteDeadline(t time.Time) error { p.write = t; return nil }
func (p *peer) Flush()                             {}

func (p *peer) wait(deadline time.Time) error {
	if left := time.Until(deadline); left < p.takes {
		time.Sleep(max(0, left))
		return os.ErrDeadlineExceeded
	}
	time.Sleep(p.takes)
	return nil
}

func (p *peer) Read(b []byte) (int, error) { return len(b), p.wait(p.read) }

func (p *peer) Write(b []byte) (int, error) {
	if err := p.wait(p.write); err != nil {
		return 0, err
	}
	return len(b), nil
}

// A client has its time for each piece of its body and of its answer, in however many parts it
// sends and takes it. The time in which nobody waits for it is the service's.
func TestAClientHasItsTimeForAPieceAndNotForEachPart(t *testing.T) {
	const timeout, idle, parts = 40 * time.Second, 10 * time.Minute, 64
	for _, c := range []struct {
		name        string
		part        int
		takes       time.Duration
		rests       time.Duration // between two parts, of the service
		sends, open bool          // it sends its body; and the answer has begun
		goesOn      bool
	}{
		{"whole pieces of a body in time", httpserver.Piece, 39 * time.Second, 0, true, false,
			true},
		{"eighths in time", httpserver.Piece / 8, 4 * time.Second, 0, true, false, true},
		{"eighths too late", httpserver.Piece / 8, 6 * time.Second, 0, true, false, false},
		{"a byte now and then", 1, 25 * time.Second, 0, true, false, false},
		{"a service that takes its time", 1, 0, time.Hour, true, false, true},
		{"a byte now and then, beside its answer", 1, 9 * time.Minute, 0, true, true, true},
		{"silence beside its answer", 1, 12 * time.Minute, 0, true, true, false},
		{"an answer that is taken in time", httpserver.Piece / 8, 4 * time.Second, 0, false, true,
			true},
		{"an answer that is taken too late", httpserver.Piece / 8, 6 * time.Second, 0, false, true,
			false},
		{"a byte of the answer now and then", 1, 25 * time.Second, 0, false, true, false},
		{"a service that sends rarely", 1, 0, time.Hour, false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &peer{ResponseWriter: httptest.NewRecorder(), takes: c.takes}
				r := httptest.NewRequest(http.MethodPost, "/a/", io.NopCloser(p))
				r.ContentLength = -1
				client := dispatch.Client(p, r, idle, timeout)
				if c.open {
					client.WriteHeader(http.StatusOK)
				}
				var err error
				buf := make([]byte, c.part)
				for begin, i := time.Now(), 0; i < parts && err == nil; i++ {
					if c.sends {
						_, err = client.Read(buf)
					} else if _, err = client.Write(buf); err == nil {
						err = http.NewResponseController(client).Flush()
					}
					if since := time.Since(begin); !c.goesOn && since > 2*idle {
						t.Fatalf("it goes on after %v and %d parts", since, i+1)
					}
					time.Sleep(c.rests)
				}
				if c.goesOn && err != nil || !c.goesOn && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("its end: %v", err)
				}
			})
		})
	}
}

func TestABodyThatTricklesGivesItsPlaceBack(t *testing.T) {
	const limit = 300 * time.Millisecond
	w := newWorld(t, func(c *dispatch.Config) { c.PerMember, c.Timeout, c.Idle = 1, limit, limit })
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "PUT /a/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for {
			time.Sleep(limit / 5)
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(testkit.Patience))
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	w.refused(answer{resp, string(body)}, http.StatusRequestTimeout, dispatch.ReasonTimeout)
	w.idle("its place is free")
	conn.Close()
	<-sent
}
