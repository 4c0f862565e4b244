package simulation_test

import (
	"net/http"
	"strings"
	"time"
)

// request is one on its way.
type request struct {
	*http.Request
	body   []byte
	fate   string
	delay  time.Duration
	rest   time.Duration // before it leaves
	number uint64
	hit    bool // it was not simply answered
}

func (r *request) renewal() bool {
	return strings.HasPrefix(r.URL.Path, "/v1/session/renew/") || strings.HasPrefix(r.URL.Path,
		"/v1/session/create")
}

func (r *request) report() bool {
	return strings.HasPrefix(r.URL.Path, "/v1/agent/check/update/")
}

func (r *request) poll() bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("index") != ""
}

// kind is what r has in common with requests that only name another key of that sort, or session.
func (r *request) kind() string {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	deep := 2
	if parts[0] == "kv" {
		deep = 4 // kv/service/NAME/members
	}
	kind := r.Method + " " + strings.Join(parts[:min(deep, len(parts))], "/")
	if r.poll() {
		kind += "?index"
	}
	return kind
}

type reply struct {
	resp *http.Response
	err  error
}
