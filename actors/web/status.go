package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/printable"
)

// looker is what the site reads Consul with.
type looker interface {
	Look(ctx context.Context) (operator.Status, operator.Holders, []operator.ItemStatus, error)
}

// viewCache reads when someone looks, and at most once a second however many do; less often when
// what is read is so large that reading it takes long.
type viewCache struct {
	read func(context.Context) *view
	turn chan struct{} // held while one request reads
	took time.Duration // by the reading before
	most time.Duration // that a reading may take

	mu   sync.Mutex
	last *view
}

func newViewCache(read func(context.Context) *view) *viewCache {
	return &viewCache{read: read, turn: make(chan struct{}, 1), most: lookTimeout}
}

// newStatusCache reads Consul.
func newStatusCache(l looker, members []*actors.Coordinator) *viewCache {
	return newViewCache(func(ctx context.Context) *view { return readStatus(ctx, l, members) })
}

const (
	lookEvery   = time.Second
	lookTimeout = 10 * time.Second
	restFactor  = 3 // a read that took long is followed by a pause of that many times as long
)

// view is one reading, ready to be sent.
type view struct {
	what    string    // was asked for
	read    time.Time // when
	fresh   time.Time // until when it is good
	err     error
	body    encoded // of a view with one document
	own     []actors.OwnItems
	events  operator.EventLog
	now     operator.Status // what status encodes
	status  encoded
	members encoded
	holders encoded
	items   []operator.ItemStatus
}

func (c *viewCache) current(what string) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && c.last.what == what && time.Now().Before(c.last.fresh) {
		return c.last
	}
	return nil
}

func (c *viewCache) look(ctx context.Context) *view { return c.lookFor(ctx, "", c.read) }

// lookFor is look where there is more than one thing to ask for. The last one is kept.
func (c *viewCache) lookFor(ctx context.Context, what string,
	read func(context.Context) *view) *view {
	if v := c.current(what); v != nil {
		return v
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return &view{err: ctx.Err()}
	}
	if v := c.current(what); v != nil {
		return v
	}
	// Not the asker's context: others wait for the same answer.
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.most)
	defer cancel()
	begin := time.Now()
	v := read(own)
	v.what, v.read, v.fresh = what, begin, begin.Add(lookEvery)
	// A failure is asked about again soon, and so is one reading that took longer than the others:
	// the host was suspended, or Consul was away.
	took := time.Since(begin)
	if usual := min(took, cmp.Or(c.took, took)); v.err == nil && usual > lookEvery/(1+restFactor) {
		v.fresh = time.Now().Add(restFactor * usual)
	}
	c.took = min(took, c.most)
	c.mu.Lock()
	c.last = v
	c.mu.Unlock()
	return v
}

func readStatus(ctx context.Context, l looker, members []*actors.Coordinator) *view {
	status, holders, items, err := l.Look(ctx)
	if err != nil {
		return &view{err: err}
	}
	for _, m := range members {
		if m.Leadership().Get().Role == facts.Leading {
			status.Brake = m.Distribution().Get().Brake // it knows before Consul does
		}
	}
	v := &view{items: items, now: status}
	var errs [3]error
	v.status, errs[0] = json.Marshal(status)
	v.members, errs[1] = json.Marshal(append(status.Members, status.Absent...))
	v.holders, errs[2] = json.Marshal(holders)
	v.err = errors.Join(errs[:]...)
	return v
}

// show sends a body of v.
func (s *site) show(w http.ResponseWriter, r *http.Request, v *view, body encoded) {
	if len(body) > largeDocument {
		if !s.large.try() {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf(
				"%d clients are reading this, which is the limit: ask again soon", largeDocuments))
			return
		}
		defer s.large.give()
	}
	if v.err != nil {
		s.fail(w, v.err)
		return
	}
	if !v.read.IsZero() {
		w.Header().Set("Age", strconv.Itoa(int(time.Since(v.read).Seconds())))
	}
	body.serve(w, r)
}

// fail answers with why something could not be read.
func (s *site) fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, operator.ErrInvalid):
		refuse(w, http.StatusBadRequest, err)
	case errors.Is(err, operator.ErrNotFound):
		refuse(w, http.StatusNotFound, err)
	default:
		w.Header().Set("Retry-After", "1")
		if s.Explain != nil {
			err = s.Explain(err)
		}
		refuse(w, http.StatusServiceUnavailable, err)
	}
}

// refuse answers with an error, in one line.
func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": printable.Line(err.Error())})
}
