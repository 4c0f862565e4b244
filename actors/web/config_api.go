package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/printable"
)

// configSite is the configuration over HTTP, for services in any language:
//
//	GET    /config/KEY    the value; ETag is its index; 404: there is no such key
//	PUT    /config/KEY    writes the body; If-Match: "INDEX" only over that index,
//	                      If-None-Match: * only a new key
//	DELETE /config/KEY    deletes; If-Match as for PUT
//	GET    /config/       JSON of all keys, of those that begin with ?prefix=
//
// A GET with If-None-Match and ?wait=30s waits until there is another version, and answers 304 if
// none came. A write with ?wait=0s, which nobody could answer, is 400. 412: the condition does not
// hold. 409: the write had to wait for Consul, and another came first. 202: it is in the log and
// not in Consul yet. 503: Consul does not answer, or the queue is full. 501: there is no backend.
type configSite struct {
	store   *configstore.Store
	waiting turns // of requests that wait for a change
	asking  turns // of requests that Consul is asked for
}

func newConfigSite(store *configstore.Store, waits int) *configSite {
	return &configSite{store, make(turns, max(1, waits)), make(turns, consulReads)}
}

const (
	// configPatience is how long a request waits for Consul unless it says otherwise.
	configPatience = 5 * time.Second
	configLongest  = 5 * time.Minute
	// consulReads is how many requests Consul is asked for at one time. It takes 200 connections
	// from one address, of which the session needs one.
	consulReads = 8
)

func (c *configSite) handler() http.Handler {
	// A browser's page of another origin must not write.
	guarded := http.NewCrossOriginProtection().Handler(http.HandlerFunc(c.serve))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.store.Enabled() {
			c.fail(w, configstore.ErrNoBackend, params{})
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// configPath is what the paths here begin with. The rest is the key as it is: one that cannot be is
// refused and not made into another.
const configPath = "/config/"

func (c *configSite) serve(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, configPath)
	r.SetPathValue("key", key)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	p, err := paramsOf(r, reads, reads && key == "")
	if err == nil && p.wait == 0 && (r.Method == http.MethodPut || r.Method == http.MethodDelete) {
		err = errors.New("wait=0s: a write is answered when Consul, or the log, has it, and " +
			"nothing was written: give wait=1s or more")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodPut {
		c.put(w, r, p) // the time of its body is another
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.wait)
	defer cancel()
	r = r.WithContext(ctx)
	switch {
	case reads && key == "":
		c.list(w, r, p)
	case reads:
		c.get(w, r, p)
	case r.Method == http.MethodDelete:
		c.delete(w, r, p)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT, DELETE")
		http.Error(w, r.Method+": a config value takes GET, PUT and DELETE",
			http.StatusMethodNotAllowed)
	}
}

// params are what the query and the headers ask for.
type params struct {
	conditions
	prefix string
	waits  bool // for a change, or for Consul
	wait   time.Duration
}

// paramsOf reads both, and refuses what it cannot make sense of instead of leaving it out.
func paramsOf(r *http.Request, reads, lists bool) (p params, err error) {
	p.wait = configPatience
	if p.conditions, err = conditionsOf(r, reads); err != nil {
		return p, err
	}
	names := []string{"wait"}
	if lists {
		names = append(names, "prefix")
	}
	query, err := queryOf(r, names)
	if err != nil {
		return p, err
	}
	p.prefix = query.Get("prefix")
	text := query.Get("wait")
	if p.waits = text != ""; p.waits {
		if p.wait, err = time.ParseDuration(text); err != nil || p.wait < 0 ||
			p.wait > configLongest {
			return p, fmt.Errorf("wait=%s: give a time of 0s to %v", quote(text), configLongest)
		}
	}
	return p, nil
}

// quote is for text from outside in an answer.
func quote(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return strconv.Quote(s)
}

// waits takes a place among those that wait for a change; false: it has told that there is none.
func (c *configSite) waits(w http.ResponseWriter) bool {
	if c.waiting.try() {
		return true
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w,
		fmt.Sprintf("%d requests wait for changes, which is the limit: ask without wait, or "+
			"let one of them wait for a prefix",
			cap(c.waiting)), http.StatusServiceUnavailable)
	return false
}

func tag(index uint64) string { return `"` + strconv.FormatUint(index, 10) + `"` }

func (c *configSite) get(w http.ResponseWriter, r *http.Request, p params) {
	ctx, key := r.Context(), r.PathValue("key")
	e, err := c.entry(ctx, key)
	exists := err == nil
	if p.waits && !p.differs(tag(e.Index), exists) {
		if !c.waits(w) {
			return
		}
		defer c.waiting.give()
		for watch := c.store.Watch(key); !p.differs(tag(e.Index), exists); {
			if _, ended := watch.Next(ctx); ended != nil {
				break
			}
			// What the watch brings is the cache's, which may be behind what was read before.
			e, err = c.entry(ctx, key)
			exists = err == nil
		}
	}
	if err != nil && !errors.Is(err, configstore.ErrNotFound) {
		c.fail(w, err, p)
		return
	}
	// also of a key that does not exist, so that it can be waited for
	w.Header().Set("ETag", tag(e.Index))
	switch {
	case !p.differs(tag(e.Index), exists):
		w.WriteHeader(http.StatusNotModified)
	case err != nil:
		c.fail(w, err, p)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(e.Value)))
		_, _ = w.Write(e.Value)
	}
}

// entry is what the cache has, or Consul where that is too old. What the cache has is not copied: a
// crowd may take its time to read it.
func (c *configSite) entry(ctx context.Context, key string) (configstore.Entry, error) {
	if c.store.Fresh() {
		if e, ok := c.store.Data().Get().Get(key); ok {
			return e, nil
		}
		return c.store.Get(ctx, key)
	}
	return c.read(ctx, key)
}

// read is what Consul has. A crowd takes few connections.
func (c *configSite) read(ctx context.Context, key string) (configstore.Entry, error) {
	if err := c.asking.take(ctx); err != nil {
		return configstore.Entry{}, err
	}
	defer c.asking.give()
	return c.store.Read(ctx, key)
}

func (c *configSite) put(w http.ResponseWriter, r *http.Request, p params) {
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, configstore.MaxValue))
	if err != nil {
		c.broken(w, err, p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.wait)
	defer cancel()
	key := r.PathValue("key")
	index, err := p.index(key)
	switch {
	case err != nil:
	case p.any():
		index, err = c.store.CompareAndSet(ctx, key, value, index)
	default:
		index, err = c.store.Put(ctx, key, value)
	}
	c.written(w, index, err, p)
}

func (c *configSite) delete(w http.ResponseWriter, r *http.Request, p params) {
	ctx, key := r.Context(), r.PathValue("key")
	index, err := p.index(key)
	switch {
	case err != nil:
	case p.any():
		err = c.store.CompareAndDelete(ctx, key, index)
	default:
		err = c.store.Delete(ctx, key)
	}
	c.written(w, 0, err, p)
}

// index is the one that a key must have for a write to take place. 0: it must not exist, or there
// is no condition.
func (c conditions) index(key string) (uint64, error) {
	if c.none == "*" || !c.any() {
		return 0, nil
	}
	at, err := strconv.ParseUint(strings.Trim(c.match, `"`), 10, 64)
	if err != nil || at == 0 {
		return 0, fmt.Errorf("%w: config key %q: the condition does not hold: %s is the ETag of "+
			"no value", configstore.ErrConflict, key, quote(c.match))
	}
	return at, nil
}

// broken answers for a value that is not here as a whole: half of one is none. The sender may be
// there still.
func (c *configSite) broken(w http.ResponseWriter, err error, p params) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		c.fail(w, fmt.Errorf(
			"%w: a value may have %d bytes: store it elsewhere and put its address here",
			configstore.ErrTooLarge, configstore.MaxValue), p)
		return
	}
	status, why := http.StatusBadRequest, "the value broke off"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		status, why = http.StatusRequestTimeout, fmt.Sprintf("nothing of it came for %v", Pace)
	}
	http.Error(w, printable.Line(fmt.Sprintf("%s (%v): nothing was written; send it again", why,
		err)),
		status)
}

// written answers for a write.
func (c *configSite) written(w http.ResponseWriter, index uint64, err error, p params) {
	if err != nil {
		c.fail(w, err, p)
		return
	}
	if index != 0 {
		w.Header().Set("ETag", tag(index))
	}
	w.WriteHeader(http.StatusNoContent)
}

// statuses are those of errors, of which the first counts.
var statuses = []struct {
	err    error
	status int
}{
	{configstore.ErrNoBackend, http.StatusNotImplemented},
	{configstore.ErrNotFound, http.StatusNotFound},
	{configstore.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{configstore.ErrInvalid, http.StatusBadRequest},
	{configstore.ErrConflict, http.StatusConflict},
	{configstore.ErrPending, http.StatusAccepted},
	{configstore.ErrDenied, http.StatusForbidden},
}

// fail turns an error into a status and one line.
func (c *configSite) fail(w http.ResponseWriter, err error, p params) {
	status := http.StatusServiceUnavailable
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			status = s.status
			break
		}
	}
	switch {
	case status == http.StatusConflict && p.any():
		status = http.StatusPreconditionFailed
	case status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, printable.Line(err.Error()), status)
}
