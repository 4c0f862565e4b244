package devconsul_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Setenv("GODEBUG", "tracebacklabels=1")
	goleak.VerifyTestMain(m)
}

// world is a fresh server and what a test does with it.
type world struct {
	*testing.T
	s *devconsul.Server
	c *api.Client
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(w world)) {
	t.Helper()
	bubbleWith(t, devconsul.Config{NoJitter: true}, f)
}

func bubbleWith(t *testing.T, cfg devconsul.Config, f func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := devconsul.New(cfg)
		defer s.Close()
		f(world{t, s, s.Client()})
	})
}

// answer is what came back on a raw request.
type answer struct {
	code   int
	header http.Header
	body   string
}

func (a answer) index(t *testing.T) uint64 {
	t.Helper()
	i, err := strconv.ParseUint(a.header.Get("X-Consul-Index"), 10, 64)
	if err != nil {
		t.Fatalf("X-Consul-Index: %v", err)
	}
	return i
}

func (w world) do(ctx context.Context, method, path, body string) (answer, error) {
	w.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	resp, err := w.s.RoundTripper().RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}, nil
}

// call makes a request; calls is a list of "METHOD /path body".
func (w world) call(line string) answer {
	w.Helper()
	f := strings.SplitN(line, " ", 3)
	body := ""
	if len(f) == 3 {
		body = f[2]
	}
	a, err := w.do(context.Background(), f[0], f[1], body)
	if err != nil {
		w.Fatalf("%s: %v", line, err)
	}
	return a
}

// want makes a request and compares code and body.
func (w world) want(line string, code int, body string) {
	w.Helper()
	if a := w.call(line); a.code != code || a.body != body {
		w.Errorf("%s: got %d %q, want %d %q", line, a.code, a.body, code, body)
	}
}

func (w world) session(body string) string {
	w.Helper()
	a := w.call("PUT /v1/session/create " + body)
	var out struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.code != 200 {
		w.Fatalf("session create %s: %d %s", body, a.code, a.body)
	}
	return out.ID
}

func (w world) key(key string) *api.KVPair {
	w.Helper()
	p, _, err := w.c.KV().Get(key, nil)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w world) alive(session string) bool {
	w.Helper()
	e, _, err := w.c.Session().Info(session, nil)
	if err != nil {
		w.Fatal(err)
	}
	return e != nil
}

func (w world) acquire(key, session string) bool {
	w.Helper()
	ok, _, err := w.c.KV().Acquire(&api.KVPair{Key: key, Session: session}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return ok
}

// poll is a blocking query under way.
type poll struct {
	a    answer
	err  error
	took time.Duration
	done chan struct{}
}

// watch starts a blocking query of a path at its present index and lets it block.
func (w world) watch(ctx context.Context, path, wait string) *poll {
	w.Helper()
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	idx := w.call("GET " + path).header.Get("X-Consul-Index")
	p := &poll{done: make(chan struct{})}
	start := time.Now()
	go func() {
		defer close(p.done)
		p.a, p.err = w.do(ctx, "GET", path+sep+"index="+idx+"&wait="+wait, "")
		p.took = time.Since(start)
	}()
	synctest.Wait()
	return p
}

var must = testkit.Must
