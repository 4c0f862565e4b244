//go:build unix

package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

func TestTheGoodbyeIsForARegisteredMemberAndClearOnlyWhenNothingIsWaitedFor(t *testing.T) {
	g := goodbye{Service: "svc", Leaving: leavingMember{Member: "m1"}}
	for name, c := range map[string]struct {
		m           facts.Membership
		says, clear bool
	}{
		"nobody":  {},
		"waiting": {m: facts.Membership{Phase: facts.Waiting}},
		"registered": {m: facts.Membership{Phase: facts.Registered, Session: "s1"},
			says: true, clear: true},
		"leaving": {m: facts.Membership{Phase: facts.Leaving, Session: "s1"}, says: true,
			clear: true},
		"not clear": {m: facts.Membership{Phase: facts.Registered, Session: "s1",
			ClearAt: time.Now().Add(-time.Second)}, says: true},
	} {
		words := g.words(c.m)
		if (words != nil) != c.says {
			t.Errorf("%s: the words are %q", name, words)
		}
		if c.says && (!bytes.Contains(words, []byte(`"Session":"s1"`)) ||
			bytes.Contains(words, []byte(`"Clear":true`)) != c.clear) {
			t.Errorf("%s: the words are %s", name, words)
		}
	}
}

// As the guard process would: all that it has are the words and its environment.
func TestTheGoodbyeTakesTheTokenFromTheEnvironmentAndNotFromTheWords(t *testing.T) {
	consul := devconsul.New(devconsul.Config{})
	defer consul.Close()
	const token = "a-secret"
	without := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Consul-Token") != token {
			without++
		}
		consul.ServeHTTP(w, r)
	}))
	defer server.Close()
	t.Setenv("CONSUL_HTTP_TOKEN", token)
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1") // the flag wins

	s, err := protocol.New("svc", store.Config{Client: consul.Client()})
	must(t, err)
	session, _, err := s.CreateSession(t.Context(), store.SessionOptions{TTL: 10 * time.Second})
	must(t, err)
	k := s.Keys()
	if _, err := s.Txn(t.Context(), store.Lock(k.Member("m1"), nil, 0, session),
		store.Lock(k.Leader(), nil, 0, session), store.Create(k.Assignment("m1", "a"),
			nil)); err != nil {
		t.Fatal(err)
	}

	g := goodbye{Service: "svc", consulFlags: consulFlags{Consul: server.URL},
		LogFormat: "text", LogLevel: "error",
		Leaving: leavingMember{Member: "m1"}}
	words := g.words(facts.Membership{Phase: facts.Registered, Session: session})
	if bytes.Contains(words, []byte(token)) {
		t.Errorf("the words hold the token: %s", words)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	sayGoodbye(ctx, words)

	if without > 0 {
		t.Errorf("%d requests without the token", without)
	}
	if left, _, err := s.List(t.Context(), k.Root(), store.Consistent); err != nil ||
		len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
	if _, exists, err := s.SessionInfo(t.Context(), session); err != nil || exists {
		t.Errorf("the session exists: %v (%v)", exists, err)
	}
}

// What a guard's goodbye for a candidate meets is in the guard's log, with the Consul of the flags.
func TestTheGoodbyeOfACandidateIsLoggedAsTheGuardLogs(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1") // the flag wins
	var text bytes.Buffer
	lines := asynclog.NewWriter(&text)
	log, err := (&logFlags{format: "text", level: "info"}).logger(lines)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	deadCandidacy{Prefix: "election/", Election: "demo", Candidate: "c", Session: "s"}.resign(ctx,
		consulFlags{Consul: server.URL}, log)
	lines.Flush(time.Second)
	if first, _, _ := strings.Cut(text.String(), "\n"); !strings.Contains(first,
		"consul-unreachable") || !strings.Contains(first, "addr="+server.URL) ||
		!strings.Contains(first, "candidate=c") {
		t.Errorf("the log:\n%s", text.String())
	}
}

func TestWordsThatNobodyWroteAreHarmless(t *testing.T) {
	for _, words := range []string{"", "{", "null", "{}", `{"Service":"a/b"}`,
		`{"Service":"svc","LogFormat":"text","LogLevel":"error","Consul":"127.0.0.1:1"}`} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		sayGoodbye(ctx, []byte(words))
		if ctx.Err() != nil {
			t.Errorf("%q: it was tried until the end", words)
		}
		cancel()
	}
}

// Whoever reads the log has stalled: the guard ends all the same.
func TestALogThatNobodyReadsHoldsNothingUp(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	l := asynclog.NewWriter(writerFunc(func(b []byte) (int, error) { <-stuck; return len(b), nil }))
	for range 1000 {
		if n, err := l.Write([]byte("line\n")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
	}
	l.Flush(flushLimit / 2)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
