package devconsul_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs f in virtual time against a fresh server.
func bubble(t *testing.T, f func(t *testing.T, s *devconsul.Server, c *api.Client)) {
	t.Helper()
	bubbleWith(t, devconsul.Config{NoJitter: true}, f)
}

func bubbleWith(t *testing.T, cfg devconsul.Config, f func(t *testing.T, s *devconsul.Server, c *api.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := devconsul.New(cfg)
		defer s.Close()
		f(t, s, s.Client())
	})
}

// answer is what came back on a raw request.
type answer struct {
	code   int
	header http.Header
	body   string
}

func call(t *testing.T, s *devconsul.Server, method, path, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.RoundTripper().RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func must[T any](t *testing.T) func(T, any, error) T {
	t.Helper()
	return func(v T, _ any, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
