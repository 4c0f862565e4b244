package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/routing"
)

// net/http's HTTP/2 goes on reading the headers of a hint when its stream is closed, and here they
// are taken away by then.
func TestAHintIsPassedOnInHTTP1Alone(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		restingWorld(t, h2, func(ask func(*http.Request) (string, error)) {
			hints := 0
			r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(),
				&httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
					hints++
					return nil
				}}), "GET", "https://x/a/", nil)
			if body, err := ask(r); err != nil || body != "here" {
				t.Errorf("%q, %v", body, err)
			}
			if want := map[bool]int{false: 1, true: 0}[h2]; hints != want {
				t.Errorf("%d hints came, want %d", hints, want)
			}
		}, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Link", "</x>; rel=preload")
			rw.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(rw, "here")
		})
	})
}

// net/http may be writing its own 100 Continue just then. Where the service takes its time the body
// is asked for before that says to continue, and the client hears it twice.
func TestAClientThatWaitsToBeToldToContinueGetsNoHint(t *testing.T) {
	for _, after := range []time.Duration{0, 1200 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
				time.Sleep(after)
				rw.WriteHeader(http.StatusEarlyHints)
				rw.WriteHeader(http.StatusContinue)
				fmt.Fprint(rw, "here")
			})
			conn, in := w.dial()
			fmt.Fprint(conn,
				"PUT /a/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			answers(t, in, http.StatusContinue)
			if resp, err := continued(in); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%v %v", resp, err)
			}
		})
	}
}

// A client of HTTP/1.0 knows neither answers before the answer nor other protocols (RFC 9110, 15.2
// and 7.8).
func TestAClientOfTheOldKindGetsOneAnswer(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echo(t)(rw, r)
			return
		}
		rw.WriteHeader(http.StatusEarlyHints)
		rw.WriteHeader(http.StatusContinue)
		fmt.Fprint(rw, "here")
	})
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(http.ResponseWriter,
		*http.Request) {
	})}}
	const upgrade = "Connection: Upgrade\r\nUpgrade: echo\r\n"
	for _, c := range []struct{ path, header string }{{"/a/", ""}, {"/a/", upgrade},
		{"/*/", upgrade}} {
		conn, in := w.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: x\r\n%s\r\n", c.path, c.header)
		answers(t, in, http.StatusOK)
	}
}
