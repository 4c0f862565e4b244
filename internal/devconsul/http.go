package devconsul

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// handler answers a request with an object to encode, or an error. (nil, nil) means that it has
// written the answer itself.
type handler func(w http.ResponseWriter, r *http.Request) (any, error)

// httpError is an error with a status code of its own; all others are 500.
type httpError struct {
	code int
	text string
}

func (e *httpError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &httpError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &httpError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf(format, args...)}
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	for _, e := range []struct {
		pattern string
		methods string
		h       handler
	}{
		{"/v1/kv/", "GET,PUT,DELETE", s.kv},
		{"/v1/txn", "PUT", s.txn},

		{"/v1/session/create", "PUT", s.locked(s.sessionCreate)},
		{"/v1/session/destroy/", "PUT", s.locked(named("session", s.sessionDestroy))},
		{"/v1/session/renew/", "PUT", s.locked(named("session", s.sessionRenew))},
		{"/v1/session/info/", "GET", named("session", s.sessionInfo)},
		{"/v1/session/node/", "GET", named("node name", s.sessionNode)},
		{"/v1/session/list", "GET", s.sessionList},

		{"/v1/agent/self", "GET", s.locked(s.agentSelf)},
		{"/v1/agent/members", "GET", s.locked(s.agentMembers)},
		{"/v1/agent/services", "GET", s.locked(s.agentServices)},
		{"/v1/agent/service/", "GET", s.locked(s.agentService)},
		{"/v1/agent/checks", "GET", s.locked(s.agentChecks)},
		{"/v1/agent/check/register", "PUT", s.locked(s.agentCheckRegister)},
		{"/v1/agent/check/deregister/", "PUT", s.locked(s.agentCheckDeregister)},
		{"/v1/agent/check/pass/", "PUT", s.locked(s.agentCheckSet)},
		{"/v1/agent/check/warn/", "PUT", s.locked(s.agentCheckSet)},
		{"/v1/agent/check/fail/", "PUT", s.locked(s.agentCheckSet)},
		{"/v1/agent/check/update/", "PUT", s.locked(s.agentCheckUpdate)},
		{"/v1/agent/service/register", "PUT", s.locked(s.agentServiceRegister)},
		{"/v1/agent/service/deregister/", "PUT", s.locked(s.agentServiceDeregister)},

		{"/v1/catalog/datacenters", "GET", s.catalogDatacenters},
		{"/v1/catalog/nodes", "GET", s.catalogNodes},
		{"/v1/catalog/services", "GET", s.catalogServices},

		{"/v1/health/node/", "GET", named("node name", s.healthNode)},
		{"/v1/health/checks/", "GET", named("service name", s.healthChecks)},
		{"/v1/health/service/", "GET", named("service name", s.healthService)},

		{"/v1/status/leader", "GET", s.status(s.leaderAddr)},
		{"/v1/status/peers", "GET", s.status(func() any { return []string{serverAddr} })},
	} {
		s.mux.HandleFunc(e.pattern, s.wrap(strings.Split(e.methods, ","), e.h))
	}
	s.mux.HandleFunc("/", index)
}

// named calls h with what follows the route in a request's path.
func named(what string, h func(http.ResponseWriter, *http.Request, string) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		name := strings.TrimPrefix(r.URL.Path, r.Pattern)
		if name == "" {
			return nil, badRequest("Missing %s", what)
		}
		return h(w, r, name)
	}
}

// locked calls h with the server's lock. It has read the body before: a slow client holds no lock.
func (s *Server) locked(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			return nil, badRequest("Request decode failed: %v", err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.isClosed {
			return nil, ErrClosed
		}
		return h(w, r)
	}
}

// index answers every path that no handler has.
func index(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		fmt.Fprint(w,
			"Consul Agent: UI disabled. To enable, set ui_config.enabled=true in the agent "+
				"configuration and restart.")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusNotFound)
	if strings.Contains(r.URL.Path, "/v1/") {
		fmt.Fprintln(w, "Invalid URL path: not a recognized HTTP API endpoint")
	} else {
		fmt.Fprintln(w,
			"Invalid URL path: if attempting to use the HTTP API, ensure the path starts "+
				"with '/v1/'")
	}
}

// ServeHTTP answers one request of the HTTP API. A blocking query ends at once when the request's
// context does; like every request without a reader it then panics with http.ErrAbortHandler, which
// net/http takes as the order to drop the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.ContainsFunc(r.URL.Path, func(c rune) bool { return !unicode.IsPrint(c) }) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) wrap(methods []string, h handler) http.HandlerFunc {
	allow := "OPTIONS," + strings.Join(methods, ",")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Default-ACL-Policy", "allow")
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			s.fail(w, r, errors.New("")) // Consul's answer has no text
			return
		}
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", allow)
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			return
		}
		var obj any
		var err error
		switch {
		case !slices.Contains(methods, r.Method):
			w.Header().Set("Allow", allow)
			err = &httpError{http.StatusMethodNotAllowed, fmt.Sprintf("method %s not allowed",
				r.Method)}
		default:
			obj, err = h(w, r)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if obj != nil {
			writeJSON(w, r, http.StatusOK, "application/json", obj)
		} else if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		}
	}
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errAborted) || errors.Is(err, ErrClosed) {
		panic(http.ErrAbortHandler)
	}
	code := http.StatusInternalServerError
	if he, ok := errors.AsType[*httpError](err); ok {
		code = he.code
	}
	s.cfg.Logger.Debug("request-refused", "method", r.Method, "url", r.URL.String(), "status", code,
		"error", err)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, err.Error())
}

func writeJSON(w http.ResponseWriter, r *http.Request, code int, contentType string, obj any) {
	buf, err := json.Marshal(obj)
	if r.URL.Query().Has("pretty") && err == nil {
		buf, err = json.MarshalIndent(obj, "", "    ")
		buf = append(buf, '\n')
	}
	if err != nil {
		panic(fmt.Sprintf("devconsul: encoding an answer of type %T: %v", obj, err))
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	w.Write(buf)
}

// decode reads a JSON body as Consul does: a field it does not know is an error.
func decode(body io.Reader, v any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return badRequest("Request decode failed: %v", err)
	}
	return nil
}
