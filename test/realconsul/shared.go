//go:build unix

package realconsul

import (
	"os"
	"sync"
	"testing"

	"github.com/coordd/coordd/test/realserver"
)

var shared struct {
	mu      sync.Mutex
	wrapped bool
	dir     string
	remove  func() error // the directory
	cluster *Cluster
	err     error
}

// M wraps a package's tests so that they may use Shared; the server ends with the last of them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(realconsul.M(m)) }
func M(m interface{ Run() int }) interface{ Run() int } { return wrapped{m} }

type wrapped struct{ m interface{ Run() int } }

func (w wrapped) Run() int {
	shared.mu.Lock()
	shared.wrapped = true
	shared.mu.Unlock()
	code := w.m.Run()
	if c := shared.cluster; c != nil {
		if err := c.close(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			code = max(code, 1)
		}
	}
	if shared.remove != nil {
		_ = shared.remove()
	}
	return code
}

// Shared returns the one server that all tests of the package have in common. It starts with the
// first test that asks. Nobody may stop or freeze it, and every test keeps to names of its own: see
// Prefix.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.wrapped {
		t.Fatal("realconsul: Shared needs TestMain to call " +
			"goleak.VerifyTestMain(realconsul.M(m)), so that somebody ends the server")
	}
	if shared.cluster == nil && shared.err == nil {
		if shared.dir, shared.remove, shared.err = realserver.Dir(); shared.err == nil {
			// All tests of a package come from one address, and many of them at once: more than the
			// 200 connections that one host may have.
			crowd := Options{Config: map[string]any{
				"limits": map[string]any{"http_max_conns_per_client": 5000}}}
			shared.cluster, shared.err = launch(crowd, shared.dir)
		}
	}
	if shared.err != nil {
		if shared.cluster != nil {
			t.Log(shared.cluster.Log())
		}
		t.Fatal(shared.err)
	}
	// A view for this test, whose failures are reported to it and to nobody else.
	c := &Cluster{t: t, dir: shared.cluster.dir, shared: true}
	for _, s := range shared.cluster.Servers {
		view := *s
		view.cluster = c
		view.Levers = view.process.Levers(view.lever)
		c.Servers = append(c.Servers, &view)
	}
	t.Cleanup(func() { c.report(t) })
	return c
}

// Prefix returns a key prefix, ending in a slash, that no other test of this run uses.
func Prefix(t testing.TB) string { return "test/" + uuid() + "/" }
