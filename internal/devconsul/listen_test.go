package devconsul_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
)

// A page whose name was rebound to the server's address is of one origin with it, to a browser.
func TestOnAPortOnlyRequestsForTheServersOwnNamesAreAnswered(t *testing.T) {
	s := devconsul.New(devconsul.Config{Hosts: []string{"consul.example:8500"}})
	defer s.Close()
	addr, stop := serve(t, s)
	defer stop()
	ask := func(method, host, header string) (int, string) {
		c, err := net.Dial("tcp", addr)
		must(t, err)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprintf(c,
			"%s /v1/kv/a HTTP/1.1\r\nHost: %s\r\n%sContent-Length: 1\r\nConnection: close\r\n\r\nx",
			method, host, header)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		return resp.StatusCode, string(b)
	}
	for host, want := range map[string]int{"evil.example": 403, "consul.example": 200,
		"localhost": 200, addr: 200} {
		if status, body := ask("PUT", host, "Sec-Fetch-Site: same-origin\r\nOrigin: http://"+host+
			"\r\n"); status != want {
			t.Errorf("PUT for %s: %d %q, want %d", host, status, body, want)
		}
		if status, body := ask("GET", host, ""); status != want {
			t.Errorf("GET for %s: %d %q, want %d", host, status, body, want)
		}
	}
	if status, _ := ask("PUT", addr,
		"Sec-Fetch-Site: cross-site\r\nOrigin: http://evil.example\r\n"); status != 403 {
		t.Errorf("PUT by a page of another origin: %d", status)
	}
	if status, _ := ask("PUT", addr, ""); status != 200 {
		t.Errorf("PUT by no browser: %d", status)
	}
}
