package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/messages"
)

// list answers with all keys of a prefix, or waits until there is another version of them.
func (c *configSite) list(w http.ResponseWriter, r *http.Request, p params) {
	ctx := r.Context()
	if p.none != "" && p.waits {
		if !c.waits(w) {
			return
		}
		defer c.waiting.give()
	}
	changes := c.store.Data().Subscribe()
	cached := version(changes.Take(), p.prefix)
	for {
		s, err := c.snapshot(ctx)
		if err != nil {
			c.fail(w, err, p)
			return
		}
		found := version(s, p.prefix)
		w.Header().Set("ETag", found)
		if p.differs(found, true) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method != http.MethodHead {
				writeList(w, s, p.prefix)
			}
			return
		}
		if p.waits {
			if cached, err = c.another(ctx, changes, cached, p.prefix); err == nil {
				continue
			}
		}
		w.WriteHeader(http.StatusNotModified)
		return
	}
}

// another waits until the version of a list in the cache is no longer this one, and returns it. Who
// follows a few keys does not look in Consul for what others have written beside them.
func (c *configSite) another(ctx context.Context, changes *messages.Cursor[configstore.Snapshot],
	was, prefix string) (string, error) {
	ctx, done := c.store.UntilStopped(ctx)
	defer done()
	for {
		now, err := changes.Next(ctx)
		if err != nil {
			return "", err
		}
		if next := version(now, prefix); next != was {
			return next, nil
		}
	}
}

// version is the ETag of a list.
func version(s configstore.Snapshot, prefix string) string {
	return fmt.Sprintf(`"%x"`, s.Version(prefix))
}

// snapshot is the cache, or what Consul has where that is too old or shows no single moment.
func (c *configSite) snapshot(ctx context.Context) (configstore.Snapshot, error) {
	if cached, ok := c.store.Cached(); ok {
		return cached, nil
	}
	if err := c.asking.take(ctx); err != nil {
		return configstore.Snapshot{}, err
	}
	defer c.asking.give()
	return c.store.Snapshot(ctx)
}

// listedEntry is one key in a list, as `coordd config list --json` prints it.
type listedEntry struct {
	Key   string  `json:"key"`
	Index uint64  `json:"index"`
	Value *string `json:"value,omitempty"`
	Bytes []byte  `json:"value_base64,omitempty"` // of a value that is not text
}

// writeList writes the entries one by one: a whole list is never in memory.
func writeList(to io.Writer, s configstore.Snapshot, prefix string) {
	w := bufio.NewWriter(to)
	before := "["
	for e := range s.All(prefix) {
		listed := listedEntry{Key: e.Key, Index: e.Index}
		if text := string(e.Value); utf8.ValidString(text) {
			listed.Value = &text
		} else {
			listed.Bytes = e.Value
		}
		body, err := json.Marshal(listed)
		if err == nil {
			_, err = w.WriteString(before + string(body))
		}
		if err != nil {
			panic(http.ErrAbortHandler) // half of a list must not look like the whole
		}
		before = ","
	}
	if before == "[" {
		_, _ = w.WriteString("[")
	}
	_, _ = w.WriteString("]\n")
	_ = w.Flush()
}
