//go:build unix

package realconsul

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/test/realserver"
)

// raft answers for three servers. What it says changes from look to look, until it is the same for
// ever.
type raft struct {
	look    func(n, server int) (leader string, writes bool)
	last    int // the look from which on it is the same
	n       int // looks so far
	changed time.Time
	left    int // keys
}

func (r *raft) answer(req *http.Request) (*http.Response, error) {
	server := int(req.URL.Port()[0] - '1')
	status, body := http.StatusOK, "true"
	if req.URL.Path == "/v1/status/leader" && server == 0 {
		r.n++
	}
	if r.n <= r.last {
		r.changed = time.Now()
	}
	leader, writes := r.look(r.n, server)
	switch {
	case req.URL.Path == "/v1/status/leader":
		body = `"` + leader + `"`
	case !writes:
		status, body = http.StatusInternalServerError, "No cluster leader"
	case req.Method == http.MethodPut:
		r.left = 1
	default:
		r.left = 0
	}
	return transport.Answer(req, status, body), nil
}

// Elections come one after the other on a busy machine: what a test begins with the first leader it
// loses with it.
func TestASetUpIsOverWhenALeaderStaysAndWritesSucceed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		look func(n, server int) (string, bool)
		last int
	}{
		{"at once", func(int, int) (string, bool) { return "a", true }, 1},
		{"one leader after the other", func(n, _ int) (string, bool) {
			return []string{"", "a", "", "b", "a", "c"}[min(n, 5)], true
		}, 5},
		{"servers that do not agree", func(n, server int) (string, bool) {
			if server == 2 && n < 5 {
				return "b", true
			}
			return "a", true
		}, 5},
		{"nobody leads for long", func(n, _ int) (string, bool) {
			if n > 30 {
				return "a", true
			}
			return "", true
		}, 31},
		{"writes fail", func(n, server int) (string, bool) {
			return "a", server != 1 || n < 2 || n > 4
		}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &raft{look: c.look, last: c.last}
			cluster := &Cluster{}
			for _, base := range []int{10000, 20000, 30000} {
				fake := &http.Transport{}
				fake.RegisterProtocol("http", transport.Func(r.answer))
				cluster.Servers = append(cluster.Servers, &Server{cluster: cluster,
					ports: &realserver.Ports{Base: base}, transport: fake})
			}
			ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
			defer cancel()
			const calm = 200 * time.Millisecond
			if err := cluster.settle(ctx, calm); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(r.changed); r.n <= c.last || took < calm {
				t.Errorf("it is over after %d looks, %v after the last change", r.n, took)
			}
			if r.left != 0 {
				t.Error("a key is left")
			}
		})
	}
}
