package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/internal/testkit"
)

// A stop waits for requests under way, and not for ever.
func TestRequestsUnderWayAtAStopHaveSomeTimeToEnd(t *testing.T) {
	for what, c := range map[string]struct {
		last     time.Duration
		answered bool
	}{
		"it ends in time": {testkit.Patience, true},
		"it does not":     {time.Millisecond, false},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			if !c.answered {
				<-r.Context().Done()
				return
			}
			_, _ = io.WriteString(w, "here")
		})
		ended := make(chan error, 1)
		go func() {
			ended <- serve(ctx, ln, httpserver.New(httpserver.Config{Handler: handler}), c.last)
		}()
		transport := &http.Transport{}
		resp, err := (&http.Client{Transport: transport, Timeout: testkit.Patience}).Get("http://" +
			ln.Addr().String())
		if (err == nil) != c.answered {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			resp.Body.Close()
		}
		transport.CloseIdleConnections()
		must(t, <-ended)
	}
}
