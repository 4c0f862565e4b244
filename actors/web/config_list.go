package web

import (
	"bufio"
	"context"
	"encoding/base64"
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
	if p.none != nil && p.waits {
		leave, ok := c.waits(w)
		if !ok {
			return
		}
		defer leave()
	}
	changes := c.store.Data().Subscribe()
	cached, err := c.version(ctx, changes.Take(), p.prefix)
	if err != nil {
		c.fail(w, err, p)
		return
	}
	for {
		s, done, err := c.snapshot(r)
		if err != nil {
			c.fail(w, err, p)
			return
		}
		version, err := c.version(ctx, s, p.prefix)
		if err != nil {
			done()
			c.fail(w, err, p)
			return
		}
		w.Header().Set("ETag", version)
		if !p.matches(version, true) {
			done()
			c.fail(w, fmt.Errorf("%w: the condition does not hold: the list's ETag is %s",
				configstore.ErrConflict, version), p)
			return
		}
		if p.differs(version, true) {
			defer done() // also when the client goes away, which ends this by a panic
			w.Header().Set("Content-Type", "application/json")
			if r.Method != http.MethodHead {
				c.send(w, s, p.prefix)
			}
			return
		}
		done()
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
	version, prefix string) (string, error) {
	ctx, done := c.store.UntilStopped(ctx)
	defer done()
	for {
		now, err := changes.Next(ctx)
		if err != nil {
			return "", err
		}
		if next, err := c.version(ctx, now, prefix); err != nil || next != version {
			return next, err
		}
	}
}

// version is the ETag of a list. It is found out in a turn, and once for all who ask for it.
func (c *configSite) version(ctx context.Context, s configstore.Snapshot, prefix string) (string,
	error) {
	if err := c.turns.take(ctx); err != nil {
		return "", fmt.Errorf("many others ask for lists: ask again soon: %w", err)
	}
	defer c.turns.give()
	return fmt.Sprintf(`"%x"`, s.Version(prefix)), nil
}

// snapshot is the cache. When that is too old, or shows no single moment, each request has a
// snapshot of its own, from Consul, and in memory for as long as its client takes to read it. So
// there are places for a few: done gives it back.
func (c *configSite) snapshot(r *http.Request) (s configstore.Snapshot, done func(), err error) {
	for changes := c.store.Data().Subscribe(); done == nil; {
		changes.Take()
		if cached, ok := c.store.Cached(); ok {
			return cached, func() {}, nil
		}
		select {
		case c.reading <- struct{}{}:
			done = func() { <-c.reading }
		case <-changes.Changed():
		case <-r.Context().Done():
			return s, nil, fmt.Errorf("%w: %w", configstore.ErrUnreachable, r.Context().Err())
		}
	}
	if s, err = c.store.Snapshot(r.Context()); err != nil {
		done()
	}
	return s, done, err
}

// listPiece is how much of a value is encoded at one time: what a list costs in memory while its
// client reads it, whatever the size of the configuration.
const listPiece = 12 << 10

// send writes a list, in turns with others.
func (c *configSite) send(w io.Writer, s configstore.Snapshot, prefix string) {
	_ = c.turns.take(context.Background()) // its turn comes: each one's is short
	defer c.turns.give()
	writeList(between{w, c.turns}, s, prefix)
}

// writeList writes the entries as json.Encoder would: as an array of what
// `coordd config list --json` prints of each key.
func writeList(to io.Writer, s configstore.Snapshot, prefix string) {
	w := bufio.NewWriterSize(to, listPiece)
	first := true
	_ = w.WriteByte('[')
	for e := range s.All(prefix) {
		if !first {
			_ = w.WriteByte(',')
		}
		first = false
		if writeListed(w, e) != nil {
			panic(http.ErrAbortHandler) // half of a list must not look like the whole
		}
	}
	_, _ = w.WriteString("]\n")
	_ = w.Flush()
}

func writeListed(w *bufio.Writer, e configstore.Entry) error {
	key, err := json.Marshal(e.Key)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, `{"key":%s,"index":%d,`, key, e.Index)
	if !utf8.Valid(e.Value) {
		_, _ = w.WriteString(`"value_base64":"`)
		b := base64.NewEncoder(base64.StdEncoding, w)
		_, _ = b.Write(e.Value)
		_ = b.Close()
	} else {
		_, _ = w.WriteString(`"value":"`)
		for rest := e.Value; len(rest) > 0; {
			n := min(listPiece, len(rest))
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n--
			}
			piece, err := json.Marshal(string(rest[:n]))
			if err != nil {
				return err
			}
			_, _ = w.Write(piece[1 : len(piece)-1])
			rest = rest[n:]
		}
	}
	_, err = w.WriteString(`"}`) // a writer that failed goes on failing
	return err
}
