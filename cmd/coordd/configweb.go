package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coordd/coordd/actors/configstore"
)

// configSite is the configuration over HTTP, for services in any language:
//
//	GET    /config/KEY    the value; ETag is its index; 404: there is no such key
//	PUT    /config/KEY    writes the body; If-Match: "INDEX" only over that index, If-None-Match: * only a new key
//	DELETE /config/KEY    deletes; If-Match as for PUT
//	GET    /config/       JSON of all keys, of those that begin with ?prefix=
//
// A GET with If-None-Match and ?wait=30s waits until there is another version, and answers 304 if none came. 412: the
// condition does not hold. 409: the write had to wait for Consul, and another came first. 202: it is in the log and
// not in Consul yet. 503: Consul does not answer, or the queue is full. 501: there is no backend.
type configSite struct{ store *configstore.Store }

const (
	// configPatience is how long a request waits for Consul unless it says otherwise.
	configPatience = 5 * time.Second
	configLongest  = 5 * time.Minute
)

func (c *configSite) handler() http.Handler {
	// A browser's page of another origin must not write.
	guarded := http.NewCrossOriginProtection().Handler(http.HandlerFunc(c.serve))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.store.Enabled() {
			c.fail(w, r, configstore.ErrNoBackend)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// configPath is what the paths here begin with. The rest is the key as it is: one that cannot be is refused and not
// made into another.
const configPath = "/config/"

func (c *configSite) serve(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, configPath)
	r.SetPathValue("key", key)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case reads && key == "":
		c.list(w, r)
	case reads:
		c.get(w, r)
	case r.Method == http.MethodPut:
		c.put(w, r)
	case r.Method == http.MethodDelete:
		c.delete(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT, DELETE")
		http.Error(w, r.Method+": a config value takes GET, PUT and DELETE", http.StatusMethodNotAllowed)
	}
}

// patience is how long this request may take.
func (c *configSite) patience(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc, bool) {
	d := configPatience
	if wait := r.FormValue("wait"); wait != "" {
		var err error
		if d, err = time.ParseDuration(wait); err != nil || d < 0 || d > configLongest {
			http.Error(w, fmt.Sprintf("wait=%s: give a time of 0s to %v", wait, configLongest), http.StatusBadRequest)
			return nil, nil, false
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	return ctx, cancel, true
}

func tag(index uint64) string { return `"` + strconv.FormatUint(index, 10) + `"` }

func (c *configSite) get(w http.ResponseWriter, r *http.Request) {
	ctx, cancel, ok := c.patience(w, r)
	if !ok {
		return
	}
	defer cancel()
	key, known := r.PathValue("key"), r.Header.Get("If-None-Match")
	e, err := c.store.Get(ctx, key)
	if known != "" && r.FormValue("wait") != "" && known == tag(e.Index) {
		for watch := c.store.Watch(key); known == tag(e.Index); {
			changes, ended := watch.Next(ctx)
			if ended != nil {
				break
			}
			for _, change := range changes {
				e, err = change.Entry, nil
				if change.Deleted {
					_, err = c.store.Get(ctx, key)
				}
			}
		}
	}
	w.Header().Set("ETag", tag(e.Index))
	switch {
	case known == tag(e.Index) && (err == nil || errors.Is(err, configstore.ErrNotFound)):
		w.WriteHeader(http.StatusNotModified)
	case err != nil:
		c.fail(w, r, err)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(e.Value)))
		_, _ = w.Write(e.Value)
	}
}

// listedConfig is one key in the JSON of a list.
type listedConfig struct {
	Key   string `json:"key"`
	Index uint64 `json:"index"`
	// One of the two: JSON holds text only.
	Value       *string `json:"value,omitempty"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

func listedOf(e configstore.Entry) listedConfig {
	l := listedConfig{Key: e.Key, Index: e.Index}
	if utf8.Valid(e.Value) {
		text := string(e.Value)
		l.Value = &text
	} else {
		l.ValueBase64 = e.Value
	}
	return l
}

func (c *configSite) list(w http.ResponseWriter, r *http.Request) {
	ctx, cancel, ok := c.patience(w, r)
	if !ok {
		return
	}
	defer cancel()
	prefix, known := r.FormValue("prefix"), r.Header.Get("If-None-Match")
	watch := c.store.WatchPrefix(prefix)
	for {
		s, err := c.store.Snapshot(ctx)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		h, entries := fnv.New64a(), []listedConfig{}
		for e := range s.All(prefix) {
			fmt.Fprintf(h, "%s %d\n", e.Key, e.Index)
			entries = append(entries, listedOf(e))
		}
		version := fmt.Sprintf(`"%x"`, h.Sum64())
		w.Header().Set("ETag", version)
		if version != known {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(entries)
			return
		}
		if r.FormValue("wait") == "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if _, err := watch.Next(ctx); err != nil {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
}

// condition is what the headers ask for; some is false when there is none.
func condition(r *http.Request) (index uint64, some bool, err error) {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case match != "" && none != "":
		return 0, false, errors.New("give one of If-Match and If-None-Match")
	case none == "*":
		return 0, true, nil
	case none != "":
		return 0, false, fmt.Errorf(`If-None-Match: %s: a write takes only "*", which means a key that does not exist`, none)
	case match == "":
		return 0, false, nil
	}
	text, ok := strings.CutPrefix(match, `"`)
	text, end := strings.CutSuffix(text, `"`)
	if index, err = strconv.ParseUint(text, 10, 64); err != nil || !ok || !end {
		return 0, false, fmt.Errorf(`If-Match: %s: give the ETag of an earlier answer, such as "1234"`, match)
	}
	return index, true, nil
}

func (c *configSite) put(w http.ResponseWriter, r *http.Request) {
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, configstore.MaxValue))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			err = fmt.Errorf("%w: a value may have %d bytes: store it elsewhere and put its address here", configstore.ErrTooLarge, configstore.MaxValue)
			c.fail(w, r, err)
		}
		return // the sender broke off: half a value is none
	}
	c.write(w, r, func(ctx context.Context, key string, index uint64, some bool) (uint64, error) {
		if some {
			return c.store.CompareAndSet(ctx, key, value, index)
		}
		return c.store.Put(ctx, key, value)
	})
}

func (c *configSite) delete(w http.ResponseWriter, r *http.Request) {
	c.write(w, r, func(ctx context.Context, key string, index uint64, some bool) (uint64, error) {
		if some {
			return 0, c.store.CompareAndDelete(ctx, key, index)
		}
		return 0, c.store.Delete(ctx, key)
	})
}

func (c *configSite) write(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, key string, index uint64, some bool) (uint64, error)) {
	index, some, err := condition(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel, ok := c.patience(w, r)
	if !ok {
		return
	}
	defer cancel()
	if index, err = do(ctx, r.PathValue("key"), index, some); err != nil {
		c.fail(w, r, err)
		return
	}
	if index != 0 {
		w.Header().Set("ETag", tag(index))
	}
	w.WriteHeader(http.StatusNoContent)
}

// fail turns an error into a status and one line.
func (c *configSite) fail(w http.ResponseWriter, r *http.Request, err error) {
	conditional := r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, configstore.ErrNoBackend):
		status = http.StatusNotImplemented
	case errors.Is(err, configstore.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, configstore.ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, configstore.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, configstore.ErrConflict) && conditional:
		status = http.StatusPreconditionFailed
	case errors.Is(err, configstore.ErrConflict):
		status = http.StatusConflict
	case errors.Is(err, configstore.ErrPending):
		status = http.StatusAccepted
	case errors.Is(err, configstore.ErrDenied):
		status = http.StatusForbidden
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, oneLine(err.Error()), status)
}

// loopback tells whether only this host can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
