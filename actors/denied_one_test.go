package actors_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// denying is a way to Consul that denies whatever holds both texts.
func denying(to http.RoundTripper, verb, text string) http.RoundTripper {
	return transport.When(to, holding(verb, text), transport.Always(403, "Permission denied"))
}

// holding picks the requests that hold all texts, wherever.
func holding(texts ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		all := r.Method + " " + r.URL.String() + transport.Text(r)
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return false
			}
		}
		return true
	}
}

// deniedOn is a way on which such requests are denied while now says so.
func deniedOn(direct http.RoundTripper, now *atomic.Bool,
	which func(*http.Request) bool) http.RoundTripper {
	return transport.When(direct, func(r *http.Request) bool { return now.Load() && which(r) },
		transport.Always(403, "Permission denied"))
}

// An order that Consul refuses for itself is skipped for 30 s and named: all others go on.
func TestAnOrderThatConsulRefusesIsSkippedAndShown(t *testing.T) {
	for name, how := range map[string]transport.Func{
		"denied":  transport.Always(http.StatusForbidden, "Permission denied"),
		"invalid": transport.Always(http.StatusBadRequest, "blocked by policy"),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var allowed atomic.Bool
				refused := transport.TxnWith("assignments/", "/poison")
				c.way = transport.When(c.consul.RoundTripper(), func(r *http.Request) bool {
					return !allowed.Load() && refused(r)
				}, how)
				items := c.items(20)
				c.addWork(append(items, "poison")...)
				c.start("n1")
				c.start("n2")
				c.await("all others run", 15*time.Second, c.runs(items))
				time.Sleep(10 * time.Second)
				s, err := c.operator().Status(c.t.Context())
				c.must(err)
				if len(s.Refused) != 1 || !strings.Contains(s.Problem(), "Consul refuses") {
					t.Errorf("refused are %v, wrong is %q", s.Refused, s.Problem())
				}
				allowed.Store(true)
				c.await("it runs", 40*time.Second, c.runs([]string{"poison"}))
				time.Sleep(5 * time.Second)
				if s, err = c.operator().Status(c.t.Context()); err != nil || len(s.Refused) > 0 {
					t.Errorf("refused are still %v, %v", s.Refused, err)
				}
			})
		})
	}
}
