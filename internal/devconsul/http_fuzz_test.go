package devconsul_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// FuzzRequest: whatever is asked, the server answers, does not panic (which the
// in-process transport passes on), and goes on serving.
func FuzzRequest(f *testing.F) {
	for _, s := range [][3]string{
		{"GET", "/v1/kv/a?recurse&index=5&wait=1s", ""}, {"PUT", "/v1/kv/a?acquire=x&flags=7", "v"},
		{"PUT", "/v1/kv/a?cas=18446744073709551615", ""},
		{"GET", "/v1/kv/?keys&separator=/", ""}, {"DELETE", "/v1/kv/?recurse", ""},
		{"PUT", "/v1/kv/%00%2e%2e/a", "x"},
		{"PUT", "/v1/txn",
			`[{"KV":{"Verb":"lock","Key":"a","Value":"eA==","Session":"x"}},` +
				`{"KV":{"Verb":"check-not-exists","Key":""}}]`},
		{"PUT", "/v1/txn",
			`[{"KV":null},null,{"Node":{}},{"Service":{"Verb":"get"}},` +
				`{"Check":{"Verb":"delete"}},{"Session":{}}]`},
		{"PUT", "/v1/txn", `[{"KV":{"Verb":"?"}}]`},
		{"PUT", "/v1/txn?consistent&stale", `{}`}, {"PUT", "/v1/session/create",
			`{"TTL":"10s","LockDelay":"1h","Behavior":"delete","Checks":null,"NodeChecks":[""]}`},
		{"PUT", "/v1/session/create", `{"LockDelay":1e300,"TTL":"-1s","ServiceChecks":[{}]}`},
		{"PUT", "/v1/session/renew/", ""}, {"PUT", "/v1/session/destroy/%2F", ""},
		{"GET", "/v1/session/info/x?index=1&wait=-1s", ""},
		{"GET", "/v1/session/list?wait=99999h&index=1", ""}, {"GET", "/v1/session/node/?dc=x", ""},
		{"PUT", "/v1/agent/service/register", `{"Name":"a","Check":{"TTL":"1s"},"Checks":[null]}`},
		{"PUT", "/v1/agent/service/register",
			`{"Name":"a","Checks":[{"HTTP":"x","Interval":"0s"}],"Weights":null}`},
		{"PUT", "/v1/agent/check/register", `{"Name":"c","TTL":"1ns"}`},
		{"PUT", "/v1/agent/check/update/c", `{"Status":"passing"}`},
		{"PUT", "/v1/agent/check/pass/service:a", ""},
		{"GET", "/v1/health/service/a?passing=maybe", ""},
		{"GET", "/v1/health/node/any?index=1&wait=1s", ""},
		{"GET", "/v1/catalog/services?index=1&wait=1s", ""}, {"GET", "/v1/status/leader", ""},
		{"GET", "/", ""}, {"OPTIONS", "/v1/kv/a", ""}, {"PATCH", "/v1/nothing", "x"},
		{"GET", "/v1/agent/self", ""}, {"GET", "/v1/kv/a?a=%zz&;", ""},
	} {
		f.Add(s[0], s[1], []byte(s[2]))
	}
	f.Fuzz(func(t *testing.T, method, target string, body []byte) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") || u.Host != "" {
			return // no request of this target can be made
		}
		if _, err := http.NewRequest(method, "http://consul.test/", nil); err != nil {
			return // nor with this method
		}
		synctest.Test(t, func(t *testing.T) {
			s := devconsul.New(devconsul.Config{NoJitter: true})
			defer s.Close()
			for range 2 { // the second finds what the first has made
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				r, _ := http.NewRequestWithContext(ctx, method, "http://consul.test/",
					bytes.NewReader(body))
				r.URL.Path, r.URL.RawPath, r.URL.RawQuery = u.Path, u.RawPath, u.RawQuery
				resp, err := s.RoundTripper().RoundTrip(r)
				if err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode < 200 || resp.StatusCode > 599 {
						t.Errorf("status %d", resp.StatusCode)
					}
				} else if ctx.Err() == nil {
					t.Errorf("no answer: %v", err)
				}
				cancel()
			}
			if ok, _, err := s.Client().KV().CAS(&api.KVPair{Key: "still", Value: []byte("there")},
				nil); !ok && err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	})
}
