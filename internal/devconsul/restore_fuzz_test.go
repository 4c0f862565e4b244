package devconsul_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
)

// FuzzRestore: what is no snapshot is refused and changes nothing; whatever is taken for one, the
// server goes on serving.
func FuzzRestore(f *testing.F) {
	call := func(s *devconsul.Server, method, target, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
		return w
	}
	s := devconsul.New(devconsul.Config{})
	call(s, "PUT", "/v1/session/create", `{"TTL":"10s","NodeChecks":[]}`)
	call(s, "PUT", "/v1/kv/a", "1")
	call(s, "PUT", "/v1/kv/b", "1")
	call(s, "DELETE", "/v1/kv/b", "")
	call(s, "PUT", "/v1/agent/service/register", `{"Name":"web","Check":{"TTL":"10s"}}`)
	f.Add(s.Snapshot())
	s.Close()
	for _, text := range []string{"", "{}", `{"Format":"devconsul/2"}`, `{"Format":"devconsul/1"}`,
		`{"Format":"devconsul/1","KV":[null]}`,
		`{"Format":"devconsul/1","Sessions":[{"ID":"x","TTL":"-1s","Node":"?"}]}`,
		`{"Format":"devconsul/1","Index":18446744073709551615,` +
			`"KV":[{"Key":"a","Session":"nobody"}]}`,
		`{"Format":"devconsul/1","Checks":[{"Node":"none"}],"Services":[{"ID":"x"}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		s := devconsul.New(devconsul.Config{})
		defer s.Close()
		call(s, "PUT", "/v1/kv/before", "1")
		err := s.Restore(snapshot)
		if w := call(s, "GET", "/v1/kv/before", ""); err != nil && w.Code != http.StatusOK {
			t.Errorf("refused with %v, and the key of before is %d", err, w.Code)
		}
		for _, target := range []string{"/v1/kv/?recurse", "/v1/session/list",
			"/v1/catalog/services", "/v1/health/state/any", "/v1/agent/services"} {
			if w := call(s, "GET", target, ""); w.Code != http.StatusOK &&
				w.Code != http.StatusNotFound {
				t.Errorf("GET %s: %d %s", target, w.Code, w.Body)
			}
		}
		if w := call(s, "PUT", "/v1/kv/after", "1"); w.Code != http.StatusOK {
			t.Errorf("PUT: %d %s", w.Code, w.Body)
		}
	})
}
