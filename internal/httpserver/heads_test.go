package httpserver_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
)

// manyLines is the beginning of a request with so many lines of headers, all different, and without
// an end.
func manyLines(n, length int) string {
	var b strings.Builder
	b.WriteString("GET / HTTP/1.1\r\nHost: localhost\r\n")
	for i := range n {
		fmt.Fprintf(&b, "%x:%s\r\n", i+0x1000, strings.Repeat("v", length))
	}
	return b.String()
}

func TestHeadersCostLittleMemoryWhateverTheyAre(t *testing.T) {
	const clients, most = 300, 96 << 20
	address := start(t, httpserver.Config{
		Header: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "here")
		}),
	})
	used := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	runtime.GC()
	before, peak := used(), int64(0)
	for name, head := range map[string]string{
		"many short lines": manyLines(7000, 0),
		"long ones":        manyLines(240, 240),
	} {
		held := make([]*conn, clients)
		for i := range held {
			held[i] = dial(t, address)
			_, _ = io.WriteString(held[i], head) // the server may refuse it half-way
		}
		// Until all was read: nothing more is kept, or a client was refused.
		last, end := int64(-1), time.Now().Add(patience)
		for ; time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
			now := used() - before
			if peak = max(peak, now); peak > most || now == last {
				break
			}
			last = now
		}
		c := dial(t, address)
		c.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if status, _ := c.answer(); status != http.StatusOK {
			t.Errorf("an ordinary request beside %d of %s: status %d", clients, name, status)
		}
		for _, c := range held {
			c.Close()
		}
	}
	if peak > most {
		t.Errorf("%d clients that send headers cost %d MiB", clients, peak>>20)
	}
	// All is given back.
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c := dial(t, address)
		c.send(manyLines(240, 240) + "Connection: close\r\n\r\n")
		status, _ := c.answer()
		if status == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a request with 60 KB of headers, alone: status %d", status)
		}
	}
}

func TestOnlyLinesOfAHeadAreCounted(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b), " ", len(r.Header))
	})
	address := start(t, httpserver.Config{Handler: handler})
	lines := strings.Repeat("\n", 3000)
	const head = "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n"
	put, part := head+lines, len(head)-2
	c := dial(t, address)
	// the third with its body and the end of its head in another piece
	c.send(put + put + put[:part])
	for i := range 3 {
		if status, body := c.answer(); status != http.StatusOK || body != "3000 1" {
			t.Fatalf("request %d: %d %q", i+1, status, body)
		}
		if i == 1 {
			c.send(put[part:])
		}
	}
	c.send(manyLines(httpserver.HeadLines-3, 0) + "\r\n")
	want := fmt.Sprint("0 ", httpserver.HeadLines-3)
	if status, body := c.answer(); status != http.StatusOK || body != want {
		t.Errorf("as many lines as there may be: %d %q", status, body)
	}
	for _, many := range []int{httpserver.HeadLines - 1, 500, 7000} { // 500 come in one read
		c.send(manyLines(many, 0) + "\r\n")
		status, body := c.answer()
		if status != http.StatusRequestHeaderFieldsTooLarge || !strings.Contains(body,
			"256 lines") {
			t.Errorf("%d lines and two more: %d %q", many, status, body)
		}
		if !c.ended() {
			t.Error("the connection is still open")
		}
		c = dial(t, address)
	}
}

func TestTheLinesOfAHeadCountWhereItCameWithTheRequestBeforeIt(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b), " ", len(r.Header))
	})
	address := start(t, httpserver.Config{Handler: handler, Pace: patience, Body: patience})
	const most = httpserver.HeadLines
	for before, answer := range map[string]string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n":                         "0 0",
		"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc": "3 1",
		"PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" +
			"\r\n3\r\nabc\r\n0\r\n\r\n": "3 0",
	} {
		for lines, want := range map[int]int{most: http.StatusOK,
			most + 1: http.StatusRequestHeaderFieldsTooLarge,
			500:      http.StatusRequestHeaderFieldsTooLarge} {
			c := dial(t, address)
			c.send(before + manyLines(lines-2, 0) + "\r\n")
			if status, body := c.answer(); status != http.StatusOK || body != answer {
				t.Fatalf("%q: %d %q", before, status, body)
			}
			status, body := c.answer()
			if status != want || status != http.StatusOK && !strings.Contains(body, "256 lines") {
				t.Errorf("%q and %d lines: %d %q", before, lines, status, body)
			} else if want != http.StatusOK && !c.ended() {
				t.Errorf("%q and %d lines: the connection is still open", before, lines)
			}
		}
	}
}

func TestAHeadTakesRoomWhereItCameWithTheRequestBeforeIt(t *testing.T) {
	release := make(chan struct{})
	address := start(t, httpserver.Config{Conns: 2000, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "2")
			fmt.Fprint(w, "ok")
			_ = http.NewResponseController(w).Flush()
			if len(r.Header) > 0 {
				<-release // its head stays
			}
		})})
	defer close(release)
	fill := func(before, head string) (requests, status int) {
		for status = http.StatusOK; status == http.StatusOK; requests++ {
			c := dial(t, address)
			c.send(before + head + "\r\n")
			if status, _ = c.answer(); status == http.StatusOK && before != "" {
				status, _ = c.answer()
			}
			if requests > 1000 {
				t.Fatal("a thousand requests have room for their heads")
			}
		}
		return requests - 1, status
	}
	for _, head := range []string{manyLines(240, 240), manyLines(240, 0)} {
		if n, status := fill("", head); status != http.StatusServiceUnavailable {
			t.Fatalf("the request after %d: status %d", n, status)
		}
	}
	n, status := fill("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", manyLines(250, 0))
	if n != 0 || status != http.StatusServiceUnavailable {
		t.Errorf("%d more requests, which came with others, and status %d", n, status)
	}
}
