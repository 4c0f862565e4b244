package devconsul_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
)

func TestKeyKeepsValueFlagsAndIndexes(t *testing.T) {
	bubble(t, func(w world) {
		kv := w.c.KV()
		for _, v := range []string{"1", "2"} {
			if _, err := kv.Put(&api.KVPair{Key: "a/b", Value: []byte(v), Flags: 1<<64 - 1},
				nil); err != nil {
				t.Fatal(err)
			}
		}
		p, m, err := kv.Get("a/b", nil)
		if err != nil || p == nil {
			t.Fatal(p, err)
		}
		if string(p.Value) != "2" || p.Flags != 1<<64-1 || p.CreateIndex >= p.ModifyIndex ||
			m.LastIndex != p.ModifyIndex {
			t.Errorf("got %+v, index %d", p, m.LastIndex)
		}
		if _, err := kv.Delete("a/b", nil); err != nil {
			t.Fatal(err)
		}
		if p := w.key("a/b"); p != nil {
			t.Errorf("deleted key reads %+v", p)
		}
	})
}

func TestMissingKeyIs404WithAnIndexThatIsNeverZero(t *testing.T) {
	bubble(t, func(w world) {
		for _, path := range []string{"/v1/kv/a", "/v1/kv/a?recurse", "/v1/kv/a?keys"} {
			if a := w.call("GET " + path); a.code != 404 || a.index(t) != 1 || a.body != "" {
				t.Errorf("%s: %d, index %d, %q", path, a.code, a.index(t), a.body)
			}
		}
		w.want("GET /v1/kv/?keys", 200, "[]")
	})
}

func TestIdenticalWriteChangesNothing(t *testing.T) {
	bubble(t, func(w world) {
		w.call("PUT /v1/kv/a?flags=3 v")
		before := w.key("a")
		w.want("PUT /v1/kv/a?flags=3 v", 200, "true")
		if after := w.key("a"); after.ModifyIndex != before.ModifyIndex {
			t.Errorf("ModifyIndex went from %d to %d", before.ModifyIndex, after.ModifyIndex)
		}
		w.want("PUT /v1/kv/a?flags=4 v", 200, "true")
		if after := w.key("a"); after.ModifyIndex <= before.ModifyIndex {
			t.Error("other flags left ModifyIndex as it was")
		}
	})
}

func TestCASWritesOnlyAtTheIndexItNames(t *testing.T) {
	bubble(t, func(w world) {
		w.want("PUT /v1/kv/a?cas=0 1", 200, "true")
		w.want("PUT /v1/kv/a?cas=0 2", 200, "false")
		w.want("PUT /v1/kv/none?cas=9 2", 200, "false")
		i := w.key("a").ModifyIndex
		w.want(fmt.Sprintf("PUT /v1/kv/a?cas=%d 3", i), 200, "true")
		w.want(fmt.Sprintf("PUT /v1/kv/a?cas=%d 4", i), 200, "false")
		if v := string(w.key("a").Value); v != "3" {
			t.Errorf("value %q", v)
		}
		w.want(fmt.Sprintf("DELETE /v1/kv/a?cas=%d", i), 200, "false")
		w.want("DELETE /v1/kv/a?cas=0", 200, "false")
		w.want(fmt.Sprintf("DELETE /v1/kv/a?cas=%d", w.key("a").ModifyIndex), 200, "true")
		// Deleting what is not there succeeds, whatever index is named.
		w.want(fmt.Sprintf("DELETE /v1/kv/a?cas=%d", i), 200, "true")
	})
}

func TestListsAreCutAtTheSeparator(t *testing.T) {
	bubble(t, func(w world) {
		for _, k := range []string{"b", "b/", "b/c", "b/d", "b/e/f", "b/e/g", "bb"} {
			w.call("PUT /v1/kv/" + k)
		}
		for path, want := range map[string]string{
			"?keys":                        `["b","b/","b/c","b/d","b/e/f","b/e/g","bb"]`,
			"b/?keys":                      `["b/","b/c","b/d","b/e/f","b/e/g"]`,
			"b/?keys&separator=/":          `["b/","b/c","b/d","b/e/"]`,
			"b?keys&separator=/":           `["b","b/","bb"]`,
			"?keys&seperator=/":            `["b","b/","bb"]`,
			"b/e?keys&separator=g":         `["b/e/f","b/e/g"]`,
			"?keys&seperator=x&separator=": `["b","b/","b/c","b/d","b/e/f","b/e/g","bb"]`,
		} {
			w.want("GET /v1/kv/"+path, 200, want)
		}
		if pairs, _, err := w.c.KV().List("b/e/", nil); err != nil || len(pairs) != 2 {
			t.Errorf("recurse: %d pairs, %v", len(pairs), err)
		}
		w.want("DELETE /v1/kv/b/?recurse", 200, "true")
		w.want("GET /v1/kv/?keys", 200, `["b","bb"]`)
	})
}

func TestRawValueCannotRunInABrowser(t *testing.T) {
	bubble(t, func(w world) {
		w.call("PUT /v1/kv/a <script>")
		a := w.call("GET /v1/kv/a?raw")
		for k, want := range map[string]string{
			"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff",
			"Content-Security-Policy": "sandbox",
		} {
			if got := a.header.Get(k); got != want {
				t.Errorf("%s: %q, want %q", k, got, want)
			}
		}
		if a.body != "<script>" {
			t.Errorf("body %q", a.body)
		}
	})
}

func TestEmptyValueReadsBackAsNull(t *testing.T) {
	bubble(t, func(w world) {
		w.call("PUT /v1/kv/a")
		if a := w.call("GET /v1/kv/a"); !strings.Contains(a.body, `"Value":null`) {
			t.Error(a.body)
		}
	})
}

func TestValueSizeLimit(t *testing.T) {
	bubble(t, func(w world) {
		w.want("PUT /v1/kv/a "+strings.Repeat("x", 524288), 200, "true")
		w.want("PUT /v1/kv/a "+strings.Repeat("x", 524289), 413,
			"Request body(524289 bytes) too large, max size: 524288 bytes. "+
				"See https://developer.hashicorp.com/docs/agent/config/config-files#kv_max_value_size.")
	})
}

func TestRefusedRequestsSayWhy(t *testing.T) {
	bubble(t, func(w world) {
		for line, want := range map[string]string{
			"GET /v1/kv/":                   "400 Missing key name",
			"PUT /v1/kv/":                   "400 Missing key name",
			"DELETE /v1/kv/":                "400 Missing key name",
			"POST /v1/kv/a":                 "405 method POST not allowed",
			"PUT /v1/kv/a?cas=1&acquire=3":  "400 Conflicting flags: acquire=3&cas=1\n",
			"DELETE /v1/kv/a?cas=1&recurse": "400 Conflicting flags: cas=1&recurse=\n",
			"PUT /v1/kv/a?cas=x":            `500 strconv.ParseUint: parsing "x": invalid syntax`,
			"PUT /v1/kv/a?flags=-1":         `500 strconv.ParseUint: parsing "-1": invalid syntax`,
			"PUT /v1/kv/a?acquire=nope":     `500 raft apply failed: invalid session "nope"`,
			"PUT /v1/kv/a?acquire=":         "500 raft apply failed: missing session",
			"PUT /v1/kv/a?release=":         "500 raft apply failed: missing session",
			"GET /v1/kv/a?index=x":          "400 Invalid index",
			"GET /v1/kv/a?wait=x":           "400 Invalid wait time",
			"GET /v1/kv/a?stale&consistent": "400 Cannot specify ?stale with ?consistent, " +
				"conflicting semantics.",
			"GET /v1/kv/a?dc=elsewhere": "500 No path to datacenter",
			"PUT /v1/kv/%20a": "500 invalid key name, leading/trailing spaces are " +
				"not allowed",
			"PUT /v1/kv/a%252e%252e": "500 invalid key name, path traversal is not allowed",
			"PUT /v1/kv/a%01":        "400 ",
			"GET /v1/kv/a?a=%zz":     "500 ",
			"GET /v1/nothing": "404 Invalid URL path: not a recognized HTTP API " +
				"endpoint\n",
			"GET /elsewhere": "404 Invalid URL path: if attempting to use the " +
				"HTTP API, ensure the path starts with '/v1/'\n",
			"GET /v1/kv/a?filter=Key+==+%22": "400 filter expressions are not supported by this " +
				"embedded server; ask a real Consul",
			"GET /v1/agent/services?filter=Tags+is+empty": "400 filter expressions are not " +
				"supported by this embedded server; ask a real Consul",
			"GET /v1/agent/checks?filter=Status+==+passing": "400 filter expressions are not " +
				"supported by this embedded server; ask a real Consul",
			"GET /v1/agent/members?filter=Tags+is+empty": "400 filter expressions are not " +
				"supported by this embedded server; ask a real Consul",
		} {
			if a := w.call(line); fmt.Sprintf("%d %s", a.code, a.body) != want {
				t.Errorf("%s: got %d %q, want %q", line, a.code, a.body, want)
			}
		}
	})
}

func TestRefusalsAreMarkedAsPlainText(t *testing.T) {
	bubble(t, func(w world) {
		for _, line := range []string{"GET /v1/kv/a?a=%zz", "GET /v1/kv/a?a;b", "GET /v1/nothing",
			"GET /elsewhere", "POST /v1/kv/a"} {
			if got := w.call(line).header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("%s: Content-Type %q", line, got)
			}
		}
	})
}

func TestAnswerToHEADHasNoBody(t *testing.T) {
	bubble(t, func(w world) {
		w.want("HEAD /v1/kv/a", 405, "")
		w.want("POST /v1/kv/a", 405, "method POST not allowed")
	})
}
