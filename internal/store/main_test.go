package store_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The fakes of package transport, under short names.
type tripper = transport.Func

var always, answer, hang = transport.Always, transport.Answer, transport.Hang

// over returns a store that speaks through rt.
func over(t *testing.T, rt http.RoundTripper, change ...func(*store.Config)) store.Store {
	t.Helper()
	cfg := config(t, rt)
	for _, f := range change {
		f(&cfg)
	}
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func config(t *testing.T, rt http.RoundTripper) store.Config {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: "consul.test:8500",
		HttpClient: &http.Client{Transport: rt}})
	must(t, err)
	return store.Config{Client: client, Logger: slog.New(slog.DiscardHandler)}
}

// counter is the one sequence key for all creations by [store.KV].
func counter(string) string { return "sequence/kv" }

// bubble runs f in virtual time with an embedded Consul.
func bubble(t *testing.T, f func(t *testing.T, consul *devconsul.Server, s store.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		defer consul.Close()
		f(t, consul, over(t, consul.RoundTripper()))
	})
}

// session opens a session or fails the test.
func session(t *testing.T, s store.Store) string {
	t.Helper()
	id, _, err := s.CreateSession(t.Context(), store.SessionOptions{Name: "test",
		TTL: store.DefaultTTL})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// renewal keeps a session of s with the usual times.
func renewal(s store.Store) store.Renewal {
	return store.Renewal{Store: s, Every: store.DefaultTTL / 3, Log: slog.New(slog.DiscardHandler),
		Session: store.SessionOptions{Name: "own", TTL: store.DefaultTTL}}
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// txn applies ops or fails the test.
func txn(t *testing.T, s store.Store, ops ...store.Op) store.Result {
	t.Helper()
	res, err := s.Txn(t.Context(), ops...)
	must(t, err)
	return res
}

// kinds are all sentinel errors; an error matches exactly one.
var kinds = []error{store.ErrSessionGone, store.ErrRefused, store.ErrDenied, store.ErrUnreachable,
	store.ErrInvalid, store.ErrNotFound, store.ErrNotSent}

// wantKind checks that err is of one kind alone, and whether a write would
// have had an unknown outcome.
func wantKind(t *testing.T, err, kind error, unknown bool) {
	t.Helper()
	for _, k := range kinds {
		if got, want := errors.Is(err, k), k == kind; got != want {
			t.Errorf("error %q: matches %q = %v, want %v", err, k, got, want)
		}
	}
	if twice := testkit.Stutter(fmt.Sprint(err)); twice != "" {
		t.Errorf("error %q says %q twice", err, twice)
	}
	if got := store.OutcomeUnknown(err); got != unknown {
		t.Errorf("error %q: OutcomeUnknown = %v, want %v", err, got, unknown)
	}
}

// wantText checks what a message says.
func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

// lines collects log lines.
type lines struct{ testkit.Output }

func (l *lines) take() []string {
	text := strings.TrimSpace(l.Take())
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
