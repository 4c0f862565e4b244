package onconsul_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// forbids answers as a Consul whose rules forbid what is asked.
var forbids = transport.Always(http.StatusForbidden, "Permission denied")

// forbidding is a way to this Consul that forbids the requests that are aimed at.
func (s *embedded) forbidding(aimed func(*http.Request) bool) http.RoundTripper {
	return transport.When(s.consul.RoundTripper(), aimed, forbids)
}

// denies is a way to this Consul that denies writes of the contested election's leader key while
// denied is set.
func (s *embedded) denies(denied *atomic.Bool) http.RoundTripper {
	return s.forbidding(func(r *http.Request) bool {
		return denied.Load() && transport.TxnWith(contested+`/state/leader"`)(r) &&
			!transport.TxnWith(`"get`)(r)
	})
}

// rights are what one way to Consul lets through.
type rights struct {
	denied atomic.Bool // no transaction, not even one that reads
	blind  atomic.Bool // no read of keys either, not even one that is under way
	cut    atomic.Bool // nothing but what the agent answers by itself
}

// grants is a way to this Consul by these rights.
func (s *embedded) grants(r *rights) http.RoundTripper {
	consul := transport.Func(func(q *http.Request) (*http.Response, error) {
		answer, err := s.consul.RoundTripper().RoundTrip(q)
		if r.blind.Load() && strings.Contains(q.URL.Path, "/kv/") {
			return forbids(q)
		}
		return answer, err
	})
	denied := func(q *http.Request) bool {
		return r.denied.Load() && strings.HasSuffix(q.URL.Path, "/txn")
	}
	cut := func(q *http.Request) bool {
		return r.cut.Load() && !strings.Contains(q.URL.Path, "/agent/")
	}
	return transport.When(transport.When(consul, denied, forbids), cut,
		transport.Fail(io.ErrUnexpectedEOF))
}
