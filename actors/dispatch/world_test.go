package dispatch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/messages"
)

// table is a locator that says what it is told to say.
type table struct {
	mu      sync.Mutex
	answers map[string]any // item -> routing.Location or error
	members []routing.Member
	changed *messages.State[struct{}]
	second  any // what every item's answer becomes behind the first question; nil: it stays
}

func newTable() *table {
	return &table{answers: map[string]any{}, changed: messages.NewState(struct{}{})}
}

func (t *table) set(item string, answer any) {
	t.mu.Lock()
	t.answers[item] = answer
	t.mu.Unlock()
	t.changed.Set(struct{}{})
}

func (t *table) Locate(_ context.Context, item string) (routing.Location, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	answer := t.answers[item]
	if t.second != nil {
		t.answers[item] = t.second
	}
	switch a := answer.(type) {
	case routing.Location:
		return a, nil
	case error:
		return routing.Location{}, fmt.Errorf("item %q %w", item, a)
	}
	return routing.Location{}, fmt.Errorf("item %q %w", item, routing.ErrUnknownItem)
}

func (t *table) Await(ctx context.Context, item string) (routing.Location, error) {
	for cursor := t.changed.Subscribe(); ; {
		cursor.Take()
		loc, err := t.Locate(ctx, item)
		if err == nil || !routing.Retriable(err) {
			return loc, err
		}
		if _, done := cursor.Next(ctx); done != nil {
			return loc, fmt.Errorf("%w: %w", err, done)
		}
	}
}

func (t *table) Members(context.Context) ([]routing.Member, error) { return t.members, nil }

// world is a dispatcher on loopback and some members' services.
type world struct {
	t      *testing.T
	table  *table
	d      *dispatch.Dispatcher
	front  *httptest.Server
	client *http.Client
}

func newWorld(t *testing.T, change ...func(*dispatch.Config)) *world {
	t.Helper()
	w := &world{t: t, table: newTable()}
	cfg := dispatch.Config{Locator: w.table}
	cfg.Logger = asynclog.Wrap(slog.New(slog.NewTextHandler(t.Output(),
		&slog.HandlerOptions{Level: slog.LevelDebug})))
	// last: after the test nothing may be written to it
	t.Cleanup(func() { asynclog.Flush(cfg.Logger, testkit.Patience) })
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if w.d, err = dispatch.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.front = httptest.NewServer(w.d)
	transport := &http.Transport{DisableCompression: true}
	w.client = &http.Client{Transport: transport, Timeout: 2 * testkit.Patience}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.front.Close()
		w.d.CloseIdleConnections()
	})
	return w
}

// service runs a member's service and returns its address.
func (w *world) service(h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// owner makes a member with a service the owner of item.
func (w *world) owner(item, member string, grant uint64, h http.HandlerFunc) {
	w.table.set(item, routing.Location{Member: member, Address: w.service(h), Grant: grant})
}

// underWay waits until n requests are under way.
func (w *world) underWay(what string, n int) {
	w.t.Helper()
	testkit.Eventually(w.t, what, func() bool {
		all, _ := w.d.InFlight("")
		return all == n
	})
}

// idle waits until no request and no stream is under way, nor has a place at n1.
func (w *world) idle(what string) {
	w.t.Helper()
	testkit.Eventually(w.t, what, func() bool {
		all, to := w.d.InFlight("n1")
		return all+to == 0
	})
}

// answers reads an answer without its body, which has to be of that status.
func answers(t *testing.T, in *bufio.Reader, status int) {
	t.Helper()
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != status {
		t.Fatalf("%v %v", resp, err)
	}
}

// answer is a response whose body has been read.
type answer struct {
	*http.Response
	body string
}

func (w *world) do(method, path, body string, header ...string) answer {
	w.t.Helper()
	r, err := http.NewRequest(method, w.front.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body == "" {
		r.Body = nil
	}
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = append(r.Header[header[i]], header[i+1]) // as it is spelled
	}
	resp, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{resp, string(b)}
}

// refused checks a refusal of the dispatcher's own.
func (w *world) refused(a answer, status int, reason string) {
	w.t.Helper()
	if a.StatusCode != status || a.Header.Get(dispatch.HeaderReason) != reason {
		w.t.Errorf("%s with reason %q, want %d with %q: %s", a.Status,
			a.Header.Get(dispatch.HeaderReason), status, reason, a.body)
	}
	if after := a.Header.Get("Retry-After"); (after != "") != (status == 503 ||
		reason == dispatch.ReasonUnreachable) {
		w.t.Errorf("%s: Retry-After is %q", reason, after)
	}
}

// nobody is an address that refuses connections.
func nobody(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// hangUp ends a request's connection without an answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// upgrade takes a request's connection over and serves it from there on.
func upgrade(t *testing.T, rw http.ResponseWriter, serve func(conn net.Conn, in io.Reader)) {
	conn, buf, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"+
		"Upgrade: websocket\r\n\r\n")
	serve(conn, buf)
}

// toWebSocket is the head of a request for an upgrade.
func toWebSocket(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n" +
		"Upgrade: websocket\r\n\r\n"
}

// dial opens a connection to the dispatcher that speaks what the test writes.
func (w *world) dial() (net.Conn, *bufio.Reader) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.front.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	return conn, bufio.NewReader(conn)
}
