package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/supervisor"
	"github.com/hashicorp/consul/api"
)

// fakeLooker answers after a while and counts how often it was asked.
type fakeLooker struct {
	mu    sync.Mutex
	asked []time.Time
	takes time.Duration
	err   error
}

func (f *fakeLooker) Look(ctx context.Context) (operator.Status, operator.Holders,
	[]operator.ItemStatus, error) {
	f.mu.Lock()
	f.asked = append(f.asked, time.Now())
	n := len(f.asked)
	f.mu.Unlock()
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return operator.Status{}, operator.Holders{}, nil, ctx.Err()
	}
	return operator.Status{Service: "demo", Members: []operator.StatusMember{},
			Work: operator.StatusWork{Total: n}},
		operator.Holders{Members: []operator.Holder{}, Free: []string{}}, nil, f.err
}

// wait is the work of a member that only holds items.
func wait(ctx context.Context, _ actors.Item) error {
	<-ctx.Done()
	return nil
}

// showing is a site of members that reads Consul by l.
func showing(l looker, members ...*actors.Coordinator) *site {
	return newSite(newStatusCache(l, members), Options{Members: members})
}

func ask(s *site, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

func TestConsulIsReadAtMostOnceASecondHoweverManyLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLooker{takes: 20 * time.Millisecond}
		s := showing(f)
		var viewers sync.WaitGroup
		for i := range 50 {
			viewers.Go(func() {
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				for range 40 {
					for _, path := range []string{"/v1/status", "/v1/holders"} {
						if w := ask(s, path); w.Code != http.StatusOK {
							t.Errorf("%s: %d %s", path, w.Code, w.Body)
						}
					}
					time.Sleep(250 * time.Millisecond)
				}
			})
		}
		viewers.Wait()
		if n := len(f.asked); n < 8 || n > 12 {
			t.Errorf("in ten seconds Consul was read %d times, want about 10", n)
		}
		for i := 1; i < len(f.asked); i++ {
			if gap := f.asked[i].Sub(f.asked[i-1]); gap < time.Second {
				t.Errorf("readings %d and %d were %v apart", i-1, i, gap)
			}
		}
		time.Sleep(time.Hour)
		if n := len(f.asked); n > 12 {
			t.Errorf("Consul was read %d times while nobody looked", n-12)
		}
	})
}

func TestALargeServiceIsReadLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLooker{takes: 2 * time.Second}
		s := showing(f)
		for range 40 {
			ask(s, "/v1/status")
			time.Sleep(500 * time.Millisecond)
		}
		for i := 1; i < len(f.asked); i++ {
			if gap := f.asked[i].Sub(f.asked[i-1]); gap < 8*time.Second || gap > 9*time.Second {
				t.Errorf("readings that take 2 s were %v apart, want 8 s", gap)
			}
		}
	})
}

func TestAViewerWhoLeavesTakesNobodysAnswerAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := showing(&fakeLooker{takes: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var first *view
		var both sync.WaitGroup
		both.Go(func() { first = s.status.look(ctx) })
		synctest.Wait()
		var second *httptest.ResponseRecorder
		both.Go(func() { second = ask(s, "/v1/status") })
		synctest.Wait()
		cancel()
		both.Wait()
		if first.err != nil || second.Code != http.StatusOK {
			t.Errorf("the reader got %v and the one who waited %d", first.err, second.Code)
		}
	})
}

func TestAConsulThatDoesNotAnswerIsSaidInOneLine(t *testing.T) {
	f := &fakeLooker{err: operator.ErrUnreachable}
	explain := func(err error) error { return fmt.Errorf("%w:\nstart it", err) }
	s := showing(f)
	s.Explain = explain
	w := ask(s, "/v1/status")
	var body struct{ Error string }
	must(t, json.Unmarshal(w.Body.Bytes(), &body))
	want := operator.ErrUnreachable.Error() + ":; start it"
	if w.Code != http.StatusServiceUnavailable || body.Error != want {
		t.Errorf("got %d %q, want %q", w.Code, body.Error, want)
	}
}

func TestWhatTheAskerHasIsNotSentAgain(t *testing.T) {
	s := showing(&fakeLooker{})
	first := ask(s, "/v1/status")
	second := ask(s, "/v1/status", "If-None-Match", first.Header().Get("ETag"))
	if second.Code != http.StatusNotModified || second.Body.Len() != 0 {
		t.Errorf("got %d with %d bytes", second.Code, second.Body.Len())
	}
}

func TestThePageAsksNobodyElse(t *testing.T) {
	w := ask(showing(&fakeLooker{}), "/")
	if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Security-Policy"),
		"default-src 'none'") {
		t.Errorf("got %d with policy %q", w.Code, w.Header().Get("Content-Security-Policy"))
	}
	for _, outside := range []string{`src="http`, `href="http`, "@import", "url(http", "//cdn"} {
		if strings.Contains(w.Body.String(), outside) {
			t.Errorf("the page holds %s", outside)
		}
	}
	if n := w.Body.Len(); n > 80<<10 {
		t.Errorf("the page has %d bytes", n)
	}
}

func TestNothingCanBeWrittenOverHTTP(t *testing.T) {
	s := showing(&fakeLooker{})
	paths := []string{"/", "/healthz", "/readyz", "/v1/items/x"}
	for _, route := range s.routes() {
		paths = append(paths, "/v1/"+route.path)
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			w := httptest.NewRecorder()
			s.handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("{}")))
			if allow := w.Header().Get("Allow"); w.Code != http.StatusMethodNotAllowed ||
				allow != "GET, HEAD" {
				t.Errorf("%s %s: %d, allow %q", method, path, w.Code, allow)
			}
			var said struct{ Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &said); strings.HasPrefix(path, "/v1/") &&
				(err != nil || !strings.Contains(said.Error, method)) {
				t.Errorf("%s %s: the answer is %q", method, path, w.Body)
			}
		}
	}
}

// A program whose variable is empty does not hear of something else than it asked for.
func TestAParameterThatMeansNothingIsRefused(t *testing.T) {
	s := showing(&fakeLooker{})
	for path, want := range map[string]string{
		"/v1/items?id=": "id is empty", "/v1/items?id=a&id=": "id is empty",
		"/v1/items?member=": "member is empty", "/v1/items?state=,": "state is empty",
		"/v1/items?limit=": "limit is empty", "/v1/items?limit=1&limit=2": "limit is given 2 times",
		"/v1/items?after=a&after=b": "after is given 2 times",
		"/v1/plan?drain=":           "drain is empty", "/v1/plan?without=": "without is empty",
		"/v1/plan?add=1&add=2":      "add is given 2 times",
		"/v1/events?about=":         "about is empty",
		"/v1/events?since=":         "since is empty",
		"/v1/events?since=1&since":  "since is given 2 times",
		"/v1/events?follow&limit=1": "limit is for a list",
	} {
		if w := ask(s, path); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %q", path, w.Code, w.Body, want)
		}
	}
	for _, path := range []string{"/v1/items?after=", "/v1/items?id=a&id=b&member=a,,b",
		"/readyz?exclude=&exclude=work&verbose"} {
		if w := ask(s, path); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestHealthFollowsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{})
		defer consul.Close()
		way := transport.NewWire(consul.RoundTripper())
		client := devconsul.ClientOver(way)
		m, op := soleMemberOf(t, client)
		s := showing(op, m)
		expect := func(when string, code int, text string) {
			t.Helper()
			if w := ask(s, "/healthz"); w.Code != code || !strings.Contains(w.Body.String(),
				text) || strings.Count(w.Body.String(), "\n") != 1 {
				t.Errorf("%s: got %d %q, want %d with %q", when, w.Code, w.Body, code, text)
			}
		}
		expect("before it runs", http.StatusServiceUnavailable, "m1 has no session in Consul")
		// A session alone does not let a member work: its record has to be locked by it.
		other, _, err := client.Session().Create(&api.SessionEntry{TTL: "24h"}, nil)
		must(t, err)
		_, _, err = client.KV().Acquire(&api.KVPair{Key: "service/demo/members/m1",
			Value: []byte(`{"status":"alive"}`), Session: other}, nil)
		must(t, err)
		root, err := supervisor.New("coordd",
			supervisor.Tree{Children: []supervisor.Child{m.Child(soleMember)}},
			supervisor.WithLogger(slog.New(slog.DiscardHandler)))
		must(t, err)
		s.Report = root.Report
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := root.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(5 * time.Second)
		expect("its record is another's", http.StatusServiceUnavailable, "m1 is not registered")
		_, err = client.Session().Destroy(other, nil)
		must(t, err)
		time.Sleep(30 * time.Second)
		expect("registered", http.StatusOK, "ok")
		way.Cut(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("cut")})
		time.Sleep(5 * time.Second)
		expect("cut off within its lease", http.StatusOK, "ok")
		time.Sleep(10 * time.Second)
		expect("cut off beyond it", http.StatusServiceUnavailable,
			"the lease of m1 has been over for")
		way.Cut(nil)
		// Its session was over or is: the record of a new one waits for the lock-delay.
		time.Sleep(9 * time.Second)
		expect("back", http.StatusOK, "ok")

		var report supervisor.Report
		if w := ask(s, "/v1/tree"); w.Code != http.StatusOK ||
			!strings.Contains(w.Body.String(), `"coordinator/session-renewer"`) ||
			json.Unmarshal(w.Body.Bytes(), &struct{}{}) != nil {
			t.Errorf("report: %d %.300s", w.Code, w.Body)
		}
		report = s.wholeReport()
		if len(report.Children) != 1 || len(report.Children[0].Children) == 0 {
			t.Errorf("the member's own tree is not in the report: %+v", report)
		}
		cancel()
		running.Wait()
		expect("it has gone", http.StatusServiceUnavailable, "m1")
	})
}

// soleMemberOf is a member, and the operator of its service.
func soleMemberOf(t *testing.T, client *api.Client) (*actors.Coordinator, *operator.Client) {
	t.Helper()
	m, err := actors.New(actors.Config{Service: "demo", ID: "m1", Client: client,
		Logger: slog.New(slog.DiscardHandler), Work: wait})
	must(t, err)
	op, err := operator.New(client, "demo")
	must(t, err)
	return m, op
}

// hugeLooker shows another large cluster each time.
type hugeLooker struct{ fakeLooker }

func (h *hugeLooker) Look(ctx context.Context) (operator.Status, operator.Holders,
	[]operator.ItemStatus, error) {
	status, holders, items, err := h.fakeLooker.Look(ctx)
	holders.Free = []string{fmt.Sprint(time.Now()) + strings.Repeat("x", 4<<20)}
	return status, holders, items, err
}

// stuckWriter is a client that takes nothing.
type stuckWriter struct {
	*httptest.ResponseRecorder
	until <-chan struct{}
}

func (s stuckWriter) Write(p []byte) (int, error) {
	<-s.until
	return 0, errors.New("gone")
}

func TestClientsThatReadSlowlyHoldFewLargeDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := showing(&hugeLooker{})
		h := s.handler()
		until := make(chan struct{})
		var all sync.WaitGroup
		codes := make([]int, 40)
		for i := range codes {
			all.Go(func() {
				w := stuckWriter{httptest.NewRecorder(), until}
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/holders", nil))
				codes[i] = w.Code
			})
			time.Sleep(2 * time.Second) // the next one reads another document
		}
		close(until)
		all.Wait()
		sent := 0
		for _, code := range codes {
			if code != http.StatusServiceUnavailable {
				sent++
			}
		}
		if sent > 16 {
			t.Errorf("%d clients that do not read hold a document of 4 MiB each", sent)
		}
		if w := ask(s, "/v1/holders"); w.Code != http.StatusOK {
			t.Errorf("when they have gone: %d", w.Code)
		}
	})
}
