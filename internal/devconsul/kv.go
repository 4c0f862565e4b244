package devconsul

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

func (s *Server) kv(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := s.parseQuery(r)
	if err != nil {
		return nil, err
	}
	params := r.URL.Query()
	key := strings.TrimPrefix(r.URL.Path, "/v1/kv/")
	if key != "" {
		// The key is cleaned as a path is, a slash at its end stays.
		clean := path.Clean(key)
		if strings.HasSuffix(key, "/") && !strings.HasSuffix(clean, "/") {
			clean += "/"
		}
		key = clean
		if err := validKey(key); err != nil {
			return nil, err
		}
	}
	switch r.Method {
	case http.MethodPut:
		return s.kvPut(r, q, params, key)
	case http.MethodDelete:
		return s.kvDelete(q, params, key)
	}
	if params.Has("keys") {
		return s.kvKeys(w, r, q, params, key)
	}
	return s.kvGet(w, r, q, params, key)
}

func validKey(key string) error {
	errSpace := errors.New("invalid key name, leading/trailing spaces are not allowed")
	errDots := errors.New("invalid key name, path traversal is not allowed")
	if strings.HasPrefix(key, " ") || strings.HasSuffix(key, " ") {
		return errSpace
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == ".." {
			return errDots
		}
	}
	if d, err := url.PathUnescape(key); err == nil && d != key {
		if strings.Contains(d, "..") {
			return errDots
		}
		if strings.Contains(d, " ") {
			return errSpace
		}
	}
	return nil
}

var errMissingKey = badRequest("Missing key name")

func (s *Server) kvGet(w http.ResponseWriter, r *http.Request, q *query, params url.Values,
	key string) (any, error) {
	recurse := params.Has("recurse")
	if key == "" && !recurse {
		return nil, errMissingKey
	}
	var found []*Entry
	err := s.read(r.Context(), q, func(st *state, ws *watchSet) (uint64, bool) {
		if recurse {
			var idx uint64
			idx, found = st.list(key, ws)
			return idx, true
		}
		idx, e := st.getWatch(key, ws)
		found = nil
		if e != nil {
			found = []*Entry{e}
		}
		return idx, e != nil
	})
	if err != nil {
		return nil, err
	}
	q.writeHeaders(w.Header())
	if len(found) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return nil, nil
	}
	if params.Has("raw") && !recurse {
		h := w.Header()
		h.Set("Content-Length", strconv.Itoa(len(found[0].Value)))
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "sandbox")
		w.Write(found[0].Value)
		return nil, nil
	}
	return found, nil
}

func (s *Server) kvKeys(w http.ResponseWriter, r *http.Request, q *query, params url.Values,
	prefix string) (any, error) {
	sep := params.Get("seperator") // the spelling that came first, still understood
	if params.Has("separator") {
		sep = params.Get("separator")
	}
	var keys []string
	err := s.read(r.Context(), q, func(st *state, ws *watchSet) (uint64, bool) {
		idx, entries := st.list(prefix, ws)
		keys = cutAt(entries, prefix, sep)
		return idx, true
	})
	if err != nil {
		return nil, err
	}
	q.writeHeaders(w.Header())
	if len(keys) == 0 && prefix != "" {
		w.WriteHeader(http.StatusNotFound)
		return nil, nil
	}
	return keys, nil
}

// conflicting answers a request that names more than one of the parameters.
func conflicting(params url.Values, names ...string) error {
	n := 0
	for _, name := range names {
		if params.Has(name) {
			n++
		}
	}
	if n > 1 {
		return badRequest("Conflicting flags: %v\n", params.Encode())
	}
	return nil
}

func (s *Server) kvPut(r *http.Request, q *query, params url.Values, key string) (any, error) {
	if key == "" {
		return nil, errMissingKey
	}
	if err := conflicting(params, "cas", "acquire", "release"); err != nil {
		return nil, err
	}
	op := kvOp{verb: "set", e: Entry{Key: key}}
	var err error
	if params.Has("flags") {
		if op.e.Flags, err = strconv.ParseUint(params.Get("flags"), 10, 64); err != nil {
			return nil, err
		}
	}
	if params.Has("cas") {
		op.verb = "cas"
		if op.index, err = strconv.ParseUint(params.Get("cas"), 10, 64); err != nil {
			return nil, err
		}
	}
	if params.Has("acquire") {
		op.verb, op.e.Session = "lock", params.Get("acquire")
	}
	if params.Has("release") {
		op.verb, op.e.Session = "unlock", params.Get("release")
	}
	if op.e.Value, err = readValue(r); err != nil {
		return nil, err
	}
	ok, err := s.applyKV(q, op)
	if err != nil {
		return nil, err
	}
	return ok || op.verb == "set", nil
}

// maxValueSize limits a value, and with it the body of a transaction, in bytes: Consul's
// kv_max_value_size.
const maxValueSize = 512 << 10

// maxDoc is where Consul documents its limits.
const maxDoc = "https://developer.hashicorp.com/docs/agent/config/config-files#"

// errLength refuses a body by the length that it is announced with.
func errLength(n int64, setting string) error {
	return tooLarge("Request body(%d bytes) too large, max size: %d bytes. See %s.", n,
		maxValueSize, maxDoc+setting)
}

func readValue(r *http.Request) ([]byte, error) {
	limit := int64(maxValueSize)
	if r.ContentLength > limit {
		return nil, errLength(r.ContentLength, "kv_max_value_size")
	}
	if r.ContentLength <= 0 {
		// Without a length one byte more than the limit passes, in Consul as here.
		limit++
	}
	v, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge("Request body too large. Max allowed is %d bytes.", maxValueSize)
	}
	return orNil(v), err
}

// orNil stores an empty value as none: it reads back as null.
func orNil(v []byte) []byte {
	if len(v) == 0 {
		return nil
	}
	return v
}

func (s *Server) kvDelete(q *query, params url.Values, key string) (any, error) {
	if err := conflicting(params, "recurse", "cas"); err != nil {
		return nil, err
	}
	op := kvOp{verb: "delete", e: Entry{Key: key}}
	if params.Has("recurse") {
		op.verb = "delete-tree"
	} else if key == "" {
		return nil, errMissingKey
	}
	if params.Has("cas") {
		op.verb = "delete-cas"
		var err error
		if op.index, err = strconv.ParseUint(params.Get("cas"), 10, 64); err != nil {
			return nil, err
		}
	}
	ok, err := s.applyKV(q, op)
	if err != nil {
		return nil, err
	}
	return ok || op.verb != "delete-cas", nil
}

// applyKV writes one operation to the log, unless the leader refuses it beforehand.
func (s *Server) applyKV(q *query, op kvOp) (ok bool, err error) {
	if q.datacenter != nil {
		return false, q.datacenter
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return false, ErrClosed
	}
	if !s.leadership.Load().applies() {
		return false, errNoLeader
	}
	if op.verb == "lock" && s.delayed(op.e.Key, time.Now()) {
		return false, nil
	}
	err = s.applyLocked(func(w *writeTxn) error {
		var err error
		_, ok, err = w.do(op)
		w.refused = !ok
		return err
	})
	if err != nil && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("raft apply failed: %w", err)
	}
	return ok, err
}

// delayed says whether a lock-delay keeps everybody from locking the key. The caller holds mu.
func (s *Server) delayed(key string, now time.Time) bool {
	until, ok := s.lockDelays[key]
	if ok && !now.Before(until) {
		delete(s.lockDelays, key)
		return false
	}
	return ok
}
