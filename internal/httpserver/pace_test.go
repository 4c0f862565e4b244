package httpserver_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
)

// reader is a client that takes so long for each write, whatever its size.
type reader struct {
	*httptest.ResponseRecorder
	takes    time.Duration
	deadline time.Time
}

func (r *reader) SetWriteDeadline(t time.Time) error { r.deadline = t; return nil }

func (r *reader) Write(p []byte) (int, error) {
	if left := time.Until(r.deadline); left < r.takes {
		time.Sleep(max(0, left))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(r.takes)
	return r.ResponseRecorder.Write(p)
}

// A piece has its time, in however many parts a handler writes it. The time between two writes is
// the handler's.
func TestAPieceHasNoMoreTimeForBeingWrittenInParts(t *testing.T) {
	const pace = 10 * time.Second
	for name, c := range map[string]struct {
		part  int
		takes time.Duration
		rests time.Duration
		flush bool
		keeps bool // up
	}{
		"whole pieces in time":       {httpserver.Piece, 9 * time.Second, 0, false, true},
		"a whole piece too late":     {httpserver.Piece, 11 * time.Second, 0, false, false},
		"eighths in time":            {httpserver.Piece / 8, time.Second, 0, false, true},
		"eighths too late":           {httpserver.Piece / 8, 2 * time.Second, 0, false, false},
		"parts that end no piece":    {12 << 10, 9 * time.Second, 0, false, false},
		"parts that are flushed":     {12 << 10, 9 * time.Second, 0, true, true},
		"flushed parts too late":     {12 << 10, 11 * time.Second, 0, true, false},
		"eighths in time with rests": {httpserver.Piece / 8, time.Second, time.Hour, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const all = 4 * httpserver.Piece
				client := &reader{ResponseRecorder: httptest.NewRecorder(), takes: c.takes}
				var failed error
				httpserver.Paced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					for sent := 0; sent < all && failed == nil; sent += c.part {
						_, failed = w.Write(make([]byte, c.part))
						if c.flush && failed == nil {
							failed = http.NewResponseController(w).Flush()
						}
						time.Sleep(c.rests)
					}
				}), pace, 0).ServeHTTP(client, httptest.NewRequest(http.MethodGet, "/", nil))
				switch {
				case c.keeps && failed != nil:
					t.Errorf("it keeps up, and is cut off: %v", failed)
				case !c.keeps && !errors.Is(failed, os.ErrDeadlineExceeded):
					t.Errorf("it takes %d bytes, %v for each %d of them, and is not cut off",
						client.Body.Len(), c.takes, c.part)
				}
			})
		})
	}
}

// In HTTP/2 a deadline ends the stream while nothing is written, too.
func TestBetweenTwoWritesAnHTTP2StreamHasNoDeadline(t *testing.T) {
	for major, want := range map[int]bool{1: false, 2: true} {
		client := &reader{ResponseRecorder: httptest.NewRecorder()}
		behind := func(what string) {
			if client.deadline.IsZero() != want {
				t.Errorf("HTTP/%d, behind %s: the deadline is %v", major, what, client.deadline)
			}
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.ProtoMajor = major
		httpserver.Paced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			behind("the head")
			_, _ = w.Write([]byte("x"))
			behind("a part")
			_ = http.NewResponseController(w).Flush()
			behind("a flush")
		}), time.Minute, 0).ServeHTTP(client, r)
		if client.deadline.IsZero() {
			t.Errorf("HTTP/%d: what the server holds of the answer may take for ever", major)
		}
	}
}

// What is left of a body is for the connection to take in HTTP/1 alone: in HTTP/2 it is its
// stream's, and other requests are on the connection.
func TestAnAnswerBeforeTheEndOfItsBodyIsTheLastOfItsConnectionInHTTP1Alone(t *testing.T) {
	none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for what, handler := range map[string]http.Handler{
		"an answer": httpserver.Paced(none, time.Minute, 0),
		"a refusal": httpserver.NewHosts("--hosts").Only(none),
	} {
		for major, want := range map[int]string{1: "close", 2: ""} {
			client := &reader{ResponseRecorder: httptest.NewRecorder(), takes: time.Nanosecond}
			r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader("body"))
			r.ProtoMajor = major
			handler.ServeHTTP(client, r)
			if got := client.Header().Get("Connection"); got != want {
				t.Errorf("HTTP/%d, %s: Connection is %q, want %q", major, what, got, want)
			}
		}
	}
}
