package relay_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/relay"
)

func TestTheRelayDeliversEachWriteASecondTime(t *testing.T) {
	t.Parallel()
	const soon = 2 * time.Minute
	heard := make(chan string, 64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		heard <- req.Method + " " + req.RequestURI + " " + req.Header.Get("X-Consul-Token") + " " +
			string(body)
	}))
	defer server.Close()
	r := relay.New(t, server.Listener.Addr().String())
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	send := func(method, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.Addr+
			"/v1/txn?a=%2F", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Consul-Token", "t")
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	hears := func(want string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != want {
				t.Fatalf("the server hears %q, not %q", got, want)
			}
		case <-time.After(soon):
			t.Fatalf("the server does not hear %q", want)
		}
	}
	long := strings.Repeat("x", 300<<10)
	send("PUT", "once")
	hears("PUT /v1/txn?a=%2F t once")
	r.Repeat(50 * time.Millisecond)
	for range 10 {
		send("PUT", long)
		hears("PUT /v1/txn?a=%2F t " + long)
		hears("PUT /v1/txn?a=%2F t " + long)
	}
	send("GET", "")
	hears("GET /v1/txn?a=%2F t ")
	r.Repeat(0)
	send("PUT", "once more")
	hears("PUT /v1/txn?a=%2F t once more")
	testkit.Await(t, soon, "10 requests are answered a second time", func() string {
		if n := r.Repeated(); n != 10 {
			return fmt.Sprintf("%d were", n)
		}
		return ""
	})
	if len(heard) > 0 {
		t.Fatalf("the server hears %q", <-heard)
	}
}
