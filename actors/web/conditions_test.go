package web

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// ask sends a request with headers that are written as they are: "If-Match: *".
func (p *configPage) ask(method, path, body string, headers ...string) (int, string) {
	p.t.Helper()
	request := fmt.Sprintf("%s /config/%s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	for _, h := range headers {
		request += h + "\r\n"
	}
	if method == "PUT" {
		request += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	status, header, _ := p.raw(request + "\r\n" + body)
	return status, header.Get("Etag")
}

// One ETag, or an asterisk: what means anything else is refused, and nothing is written.
func TestConditionsOfRequests(t *testing.T) {
	p := serveConfigPage(t)
	n := 0
	for _, c := range []struct {
		header string // K stands for the key's ETag
		exists bool
		get    int
		write  int
	}{
		{"If-Match: K", true, 400, 204},
		{"If-Match: W/K", true, 400, 204},
		{"If-Match: K", false, 400, 412}, // the ETag of a key that is not there
		{`If-Match: "4711"`, true, 400, 412},
		{`If-Match: "x-1"`, true, 400, 412},
		{"If-Match: *", true, 400, 400},
		{"If-None-Match: *", true, 304, 412},
		{"If-None-Match: *", false, 404, 204},
		{"If-None-Match: K", true, 304, 400},
		{"If-None-Match: W/K", true, 304, 400},
		{"If-None-Match: K", false, 304, 400}, // that ETag is for a GET to wait by
		{`If-None-Match: "4711"`, true, 200, 400},
		{"If-Match: K\r\nIf-None-Match: *", true, 400, 400},
		{`If-Match: "4711", K`, true, 400, 400},
		{"If-Match:", true, 400, 400},
		{"If-None-Match: 4711", true, 400, 400},
		{`If-Match: "4711`, true, 400, 400},
	} {
		for method, want := range map[string]int{"GET": c.get, "HEAD": c.get, "PUT": c.write,
			"DELETE": c.write} {
			if method == "DELETE" && c.header == "If-None-Match: *" {
				continue // a key that does not exist is not deleted
			}
			n++
			key, tag := fmt.Sprintf("k%d", n), `"0"`
			if c.exists {
				var status int
				if status, tag = p.ask("PUT", key, "old"); status != 204 || tag == "" {
					t.Fatalf("PUT: %d %s", status, tag)
				}
			}
			got, _ := p.ask(method, key, "new", strings.ReplaceAll(c.header, "K", tag))
			if got != want {
				t.Errorf("%s of a key that exists %v, %q: %d, want %d", method, c.exists, c.header,
					got, want)
			}
			value, there := p.in(key)
			switch {
			case method == "PUT" && want == 204:
				if value != "new" {
					t.Errorf("PUT, %q: %q is there", c.header, value)
				}
			case method == "DELETE" && want == 204:
				if there {
					t.Errorf("DELETE, %q: it is still there", c.header)
				}
			case there != c.exists || there && value != "old":
				t.Errorf("%s, %q, refused: %q is there (%v)", method, c.header, value, there)
			}
		}
	}
	_, tag := p.ask("GET", "?prefix=k", "")
	for header, want := range map[string]int{"If-None-Match: " + tag: 304,
		"If-None-Match: W/" + tag: 304, "If-None-Match: *": 304, `If-None-Match: "x"`: 200,
		"If-Match: " + tag: 400} {
		if status, _ := p.ask("GET", "?prefix=k", "", header); status != want {
			t.Errorf("a list, %s: %d, want %d", header, status, want)
		}
	}
}

func TestAQueryThatMeansNothingIsRefused(t *testing.T) {
	p := serveConfigPage(t)
	if status, _ := p.ask("PUT", "k", "old"); status != 204 {
		t.Fatal(status)
	}
	for query, want := range map[string]int{
		"?wait=1s;x=1": 400, "?wait=%zz": 400, "?wait=1s&wait=2s": 400, "?wiat=1s": 400,
		"?wait=-1s": 400, "?wait=6m": 400, "?prefix=k": 400, "?wait=1s": 200, "?": 200,
		"?wait=": 200,
	} {
		if status, _ := p.ask("GET", "k"+query, ""); status != want {
			t.Errorf("GET %s: %d, want %d", query, status, want)
		}
		if status, _ := p.ask("DELETE", "none"+query, ""); status != map[int]int{200: 204,
			400: 400}[want] {
			t.Errorf("DELETE %s: %d", query, status)
		}
	}
	if status, _ := p.ask("GET", "?prefix=k&wait=1s", ""); status != 200 {
		t.Errorf("a list: %d", status)
	}
}

func TestAGetWaitsForAnotherVersion(t *testing.T) {
	p := serveConfigPage(t)
	_, tag := p.ask("PUT", "k", "old")
	if status, _ := p.ask("GET", "k?wait=50ms", "", "If-None-Match: "+tag); status != 304 {
		t.Errorf("nothing changes: %d", status)
	}
	if status, zero := p.ask("GET", "new", ""); status != 404 || zero != `"0"` {
		t.Errorf("a key that is not there: %d %s", status, zero)
	}
	for key, known := range map[string]string{"k": tag, "new": `"0"`} {
		answered := make(chan int, 1)
		go func() {
			status, _ := p.ask("GET", key+"?wait=25s", "", "If-None-Match: "+known)
			answered <- status
		}()
		select {
		case status := <-answered:
			t.Errorf("%s: %d before anything has changed", key, status)
			continue
		case <-time.After(200 * time.Millisecond):
		}
		if status, _ := p.ask("PUT", key, "next"); status != 204 {
			t.Fatal(status)
		}
		if status := <-answered; status != 200 {
			t.Errorf("%s: %d when it has changed", key, status)
		}
	}
}
