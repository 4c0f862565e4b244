package web

import (
	"fmt"
	"net/http"
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

// By RFC 9110, 13.1 and 13.2.
func TestConditionsOfRequestsMeanWhatTheStandardSays(t *testing.T) {
	p := serveConfigPage(t)
	n := 0
	for _, c := range []struct {
		header string // K stands for the key's ETag
		exists bool
		get    int
		put    int
		delete int
	}{
		{"If-Match: *", true, 200, 204, 204},
		{"If-Match: *", false, 412, 412, 412},
		{"If-Match: K", true, 200, 204, 204},
		{"If-Match: W/K", true, 412, 412, 412}, // compared strongly
		{`If-Match: "4711"`, true, 412, 412, 412},
		{`If-Match: "4711"`, false, 412, 412, 412},
		{`If-Match: "4711", K`, true, 200, 204, 204},
		{`If-Match: "47,11" ,, W/"x",K`, true, 200, 204, 204},
		{`If-Match: "4711", W/K`, true, 412, 412, 412},
		{"If-Match: \"4711\"\r\nIf-Match: K", true, 200, 204, 204},
		// the ETag of a key that is not there matches nothing
		{"If-Match: K", false, 412, 412, 412},
		{`If-Match: "4711", K`, false, 412, 412, 412},
		{`If-Match: "no index"`, true, 400, 400, 400},
		{`If-Match: "x-1"`, true, 412, 412, 412},
		{"If-Match: 0K", true, 400, 400, 400},
		{"If-None-Match: *", true, 304, 412, 412},
		{"If-None-Match: *", false, 404, 204, 204},
		{"If-None-Match: K", true, 304, 412, 412},
		{"If-None-Match: W/K", true, 304, 412, 412}, // compared weakly
		{`If-None-Match: "4711", W/K`, true, 304, 412, 412},
		// that ETag is for a GET to wait by
		{"If-None-Match: K", false, 304, 204, 204},
		{"If-None-Match: \"4711\"\r\nIf-None-Match: W/K", false, 304, 204, 204},
		{`If-None-Match: "4711"`, true, 200, 204, 204},
		{`If-None-Match: "4711"`, false, 404, 204, 204},
		{"If-Match: K\r\nIf-None-Match: \"4711\"", true, 200, 204, 204},
		{"If-Match: *\r\nIf-None-Match: K", true, 304, 412, 412},
		// If-Match is looked at first
		{"If-Match: \"4711\"\r\nIf-None-Match: K", true, 412, 412, 412},
		{"If-Match:", true, 400, 400, 400},
		{"If-None-Match:", true, 400, 400, 400},
		{"If-None-Match: ,", true, 400, 400, 400},
		{"If-Match: 4711", true, 400, 400, 400},
		{`If-Match: "4711`, true, 400, 400, 400},
		{`If-Match: *, "4711"`, true, 400, 400, 400},
		{`If-None-Match: "1" "2"`, true, 400, 400, 400},
	} {
		for method, want := range map[string]int{"GET": c.get, "HEAD": c.get, "PUT": c.put,
			"DELETE": c.delete} {
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
}

func TestTheConditionsOfAListMeanWhatTheStandardSays(t *testing.T) {
	p := serveConfigPage(t)
	if status, _ := p.ask("PUT", "a/b", "v"); status != 204 {
		t.Fatal(status)
	}
	_, tag := p.ask("GET", "?prefix=a/", "")
	for header, want := range map[string]int{
		"If-None-Match: " + tag: 304, "If-None-Match: W/" + tag: 304, `If-None-Match: "x", ` +
			tag: 304, "If-None-Match: *": 304, `If-None-Match: "x"`: 200,
		"If-Match: " + tag: 200, "If-Match: *": 200, `If-Match: "x"`: 412, "If-None-Match:": 400,
	} {
		if status, _ := p.ask("GET", "?prefix=a/", "", header); status != want {
			t.Errorf("%s: %d, want %d", header, status, want)
		}
	}
}

func TestAPutOfAPartOrInACodingIsRefused(t *testing.T) {
	p := serveConfigPage(t)
	for header, want := range map[string]int{
		"Content-Range: bytes 0-2/6":                           400,
		"Content-Range:\r\nContent-Range: bytes 0-2/6":         400,
		"Content-Range: bytes 0-2/6\r\nContent-Range:":         400,
		"Content-Encoding: gzip":                               415,
		"Content-Encoding: identity, gzip":                     415,
		"Content-Encoding:\r\nContent-Encoding: gzip":          415,
		"Content-Encoding: identity\r\nContent-Encoding: gzip": 415,
		"Content-Encoding: Identity":                           204,
		"Content-Encoding:\r\nContent-Range:":                  204,
	} {
		if status, _ := p.ask("PUT", "k", "new", header); status != want {
			t.Errorf("%s: %d, want %d", header, status, want)
		}
	}
}

func TestWhoAcceptsAStreamInAnyLineOfItsHeaderFollows(t *testing.T) {
	for _, lines := range [][]string{{"text/event-stream"}, {"text/html", "text/event-stream"},
		{"", "text/html, text/event-stream"}} {
		r := &http.Request{Header: http.Header{"Accept": lines}}
		if follow, err := follows(r, nil); !follow || err != nil {
			t.Errorf("%q: %v, %v", lines, follow, err)
		}
	}
}

func TestWhereAFollowerWasIsReadInAllLinesOfItsHeader(t *testing.T) {
	for _, lines := range [][]string{{"7"}, {"", "7"}, {"7", ""}, {"7", "7"}} {
		r := &http.Request{Header: http.Header{"Last-Event-Id": lines}}
		if want, err := wantedOf(r, nil); want.after != 7 || !want.known || !want.again || err != nil {
			t.Errorf("%q: %+v, %v", lines, want, err)
		}
	}
	for _, lines := range [][]string{{"7", "8"}, {"7, 8"}, {"7", "x"}} {
		r := &http.Request{Header: http.Header{"Last-Event-Id": lines}}
		if want, err := wantedOf(r, nil); err == nil {
			t.Errorf("%q: %+v", lines, want)
		}
	}
	r := &http.Request{Header: http.Header{"Last-Event-Id": {""}}}
	if want, err := wantedOf(r, nil); want.known || want.again || err != nil {
		t.Errorf("of an empty one: %+v, %v", want, err)
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

// With a condition of any form a GET waits until it holds.
func TestAGetWaitsForAnotherVersion(t *testing.T) {
	p := serveConfigPage(t)
	_, tag := p.ask("PUT", "k", "old")
	if status, _ := p.ask("GET", "k?wait=50ms", "", "If-None-Match: "+tag); status != 304 {
		t.Errorf("nothing changes: %d", status)
	}
	if status, zero := p.ask("GET", "new", ""); status != 404 || zero != `"0"` {
		t.Errorf("a key that is not there: %d %s", status, zero)
	}
	for key, known := range map[string]string{"k": `"4711", W/` + tag, "new": `"0"`} {
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
