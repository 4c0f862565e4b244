package httpserver_test

import (
	"net/http"
	"testing"

	"github.com/coordd/coordd/internal/httpserver"
)

// Whoever tells a server's refusals from its handler's answers by a header finds it in each.
func TestEachRefusalHasTheHeadersThatItsConfigGivesIt(t *testing.T) {
	for _, c := range []struct {
		requests []string // on one connection each; the last one is refused
		status   int
	}{
		{[]string{"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"}, 403},
		{[]string{"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"}, 503},
		{[]string{manyLines(7000, 0)}, 431},
	} {
		here, goOn := make(chan struct{}), make(chan struct{})
		address := start(t, httpserver.Config{Conns: 1,
			Hosts: httpserver.NewHosts("--name"),
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				close(here)
				<-goOn
			}),
			Refused: func(status int, h http.Header) { h.Set("Why", http.StatusText(status)) }})
		var last *conn
		for i, request := range c.requests {
			if i > 0 {
				<-here
			}
			last = dial(t, address)
			last.send(request)
		}
		resp, err := http.ReadResponse(last.in, nil)
		close(goOn)
		if err != nil || resp.StatusCode != c.status ||
			resp.Header.Get("Why") != http.StatusText(c.status) {
			t.Errorf("%d: %v %v", c.status, resp, err)
		}
	}
}
