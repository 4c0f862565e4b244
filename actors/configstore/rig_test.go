package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// rig is stores on an embedded Consul, in virtual time, and a record of every config value that
// Consul took.
type rig struct {
	t      *testing.T
	consul *devconsul.Server
	log    *slog.Logger
	stores []*host

	mu      sync.Mutex
	cancels []context.CancelFunc
	applied map[string]int // "key=value" -> how often it was written; "key-" -> deleted
}

// host is one process with a store.
type host struct {
	*configstore.Store
	rig    *rig
	net    *transport.Wire
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func run(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		f(t, r)
	})
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, applied: map[string]int{},
		consul: devconsul.New(devconsul.Config{NoJitter: true}),
		log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.String("t", a.Value.Time().Format("04:05.000"))
				}
				return a
			}})),
	}
	r.consul.OnCommit(func(c devconsul.Commit) {
		if !c.Applied {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, op := range c.Ops {
			key, ok := strings.CutPrefix(op.Key, "service/demo/config_data/")
			if !ok || !op.OK {
				continue
			}
			switch op.Verb {
			case "set", "cas":
				r.applied[key+"="+string(op.Value)]++
			case "delete", "delete-cas":
				r.applied[key+"-"]++
			}
		}
	})
	return r
}

func (r *rig) close() {
	for _, h := range r.stores {
		h.stop()
	}
	r.consul.Close()
	for _, cancel := range r.cancels {
		cancel()
	}
}

func (r *rig) times(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied[what]
}

// start runs a store of a process of its own. Options change its settings.
func (r *rig) start(options ...func(*configstore.Config)) *host {
	r.t.Helper()
	h := r.prepare(options...)
	h.run()
	return h
}

func (r *rig) prepare(options ...func(*configstore.Config)) *host {
	r.t.Helper()
	n := len(r.stores) + 1
	h := &host{rig: r, net: transport.NewWire(r.consul.RoundTripper()),
		done: make(chan struct{})}
	c := configstore.Config{Service: "demo", Client: devconsul.ClientOver(h.net),
		Logger: r.log.With("n", n)}
	for _, o := range options {
		o(&c)
	}
	var err error
	if h.Store, err = configstore.New(c); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stores = append(r.stores, h)
	return h
}

func (h *host) run() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() {
		defer close(h.done)
		h.err = h.Run(ctx)
	}()
}

// stop ends a store cleanly.
func (h *host) stop() {
	h.cancel()
	<-h.done
}

// kill ends it as kill -9 does: nothing that it sends arrives any more.
func (h *host) kill() {
	h.net.Cut(errors.New("killed"))
	h.stop()
}

func (h *host) ready() *host {
	h.rig.t.Helper()
	if err := h.WaitLoaded(h.rig.ctx(time.Minute)); err != nil {
		h.rig.t.Fatal(err)
	}
	return h
}

func (r *rig) ctx(d time.Duration) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	r.cancels = append(r.cancels, cancel)
	return ctx
}

func (h *host) put(key, value string) uint64 {
	h.rig.t.Helper()
	index, err := h.Put(h.rig.ctx(time.Minute), key, []byte(value))
	if err != nil {
		h.rig.t.Fatalf("put %s: %v", key, err)
	}
	return index
}

// get returns a key's value, or "-" when it is missing.
func (h *host) get(key string) string {
	h.rig.t.Helper()
	e, err := h.Get(h.rig.ctx(time.Minute), key)
	if errors.Is(err, configstore.ErrNotFound) {
		return "-"
	}
	if err != nil {
		h.rig.t.Fatalf("get %s: %v", key, err)
	}
	return string(e.Value)
}

func (r *rig) expect(what string, got, want any) {
	r.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// await waits in virtual time.
func (r *rig) await(what string, limit time.Duration, ok func() bool) {
	r.t.Helper()
	if _, held := testkit.Virtual(limit, 10*time.Millisecond, ok); !held {
		r.t.Fatalf("not within %v: %s", limit, what)
	}
}

// stranger writes past all of this, as `consul kv put` does; raw is what Consul has.
func (r *rig) stranger(key, value string) {
	r.t.Helper()
	if _, err := r.consul.Client().KV().Put(&api.KVPair{Key: "service/demo/" + key,
		Value: []byte(value)}, nil); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) strangerDeletes(key string) {
	r.t.Helper()
	if _, err := r.consul.Client().KV().Delete("service/demo/"+key, nil); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) raw(key string) string {
	r.t.Helper()
	p, _, err := r.consul.Client().KV().Get("service/demo/"+key, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if p == nil {
		return "-"
	}
	return string(p.Value)
}
