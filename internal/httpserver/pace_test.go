package httpserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
)

// reader is a client whose write deadline can be seen.
type reader struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (r *reader) SetWriteDeadline(t time.Time) error { r.deadline = t; return nil }

// In HTTP/2 a deadline ends the stream while nothing is written, too.
func TestBetweenTwoWritesThereIsNoDeadline(t *testing.T) {
	for _, major := range []int{1, 2} {
		client := &reader{ResponseRecorder: httptest.NewRecorder()}
		behind := func(what string) {
			if !client.deadline.IsZero() {
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
		}), time.Minute).ServeHTTP(client, r)
		if client.deadline.IsZero() {
			t.Errorf("HTTP/%d: what the server holds of the answer may take for ever", major)
		}
	}
}

// What is left of a body is for the connection to take in HTTP/1 alone: in HTTP/2 it is its
// stream's, and other requests are on the connection.
func TestAnAnswerBeforeTheEndOfItsBodyIsTheLastOfItsConnectionInHTTP1Alone(t *testing.T) {
	for major, want := range map[int]string{1: "close", 2: ""} {
		client := &reader{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader("body"))
		r.ProtoMajor = major
		httpserver.Paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			time.Minute).ServeHTTP(client, r)
		if got := client.Header().Get("Connection"); got != want {
			t.Errorf("HTTP/%d: Connection is %q, want %q", major, got, want)
		}
	}
}
