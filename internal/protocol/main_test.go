package protocol_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// over returns the store of the service svc that speaks through rt.
func over(t *testing.T, rt http.RoundTripper) *protocol.Store {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: "consul.test:8500",
		HttpClient: &http.Client{Transport: rt}})
	must(t, err)
	s, err := protocol.New("svc", store.Config{Client: client,
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	return s
}

// bubble runs f in virtual time with an embedded Consul.
func bubble(t *testing.T, f func(t *testing.T, consul *devconsul.Server, s *protocol.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		defer consul.Close()
		f(t, consul, over(t, consul.RoundTripper()))
	})
}

// session opens a session or fails the test.
func session(t *testing.T, s *protocol.Store) string {
	t.Helper()
	id, _, err := s.CreateSession(t.Context(), store.SessionOptions{Name: "test",
		TTL: store.DefaultTTL})
	must(t, err)
	return id
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// txn applies ops or fails the test.
func txn(t *testing.T, s *protocol.Store, ops ...store.Op) {
	t.Helper()
	_, err := s.Txn(t.Context(), ops...)
	must(t, err)
}

// wantInvalid checks that err is [store.ErrInvalid] and says all of parts.
func wantInvalid(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, store.ErrInvalid) || store.OutcomeUnknown(err) {
		t.Errorf("error %v: want %v", err, store.ErrInvalid)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
