package store_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// spy notes the transactions that pass by.
type spy struct {
	next   http.RoundTripper
	before func(n int, t []wire) (*http.Response, error) // may answer in place of Consul
	mu     sync.Mutex
	txns   [][]wire
	flying int
	most   int
	off    bool // what passes is not noted
}

type wire struct {
	Verb, Key, Session string
	Index              uint64
}

func (p *spy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/v1/txn" || p.off {
		return p.next.RoundTrip(r)
	}
	data := []byte(transport.Txn(r))
	var ops []struct{ KV wire }
	if err := json.Unmarshal(data, &ops); err != nil {
		return nil, err
	}
	var t []wire
	for _, op := range ops {
		t = append(t, op.KV)
	}
	p.mu.Lock()
	n := len(p.txns)
	p.txns = append(p.txns, t)
	p.flying++
	p.most = max(p.most, p.flying)
	p.mu.Unlock()
	defer func() { p.mu.Lock(); p.flying--; p.mu.Unlock() }()
	if p.before != nil {
		if resp, err := p.before(n, t); resp != nil || err != nil {
			return resp, err
		}
	}
	return p.next.RoundTrip(r)
}

// writer opens a writer, which is not noted.
func (p *spy) writer(t *testing.T, s store.Store, guard store.Op, inFlight int) *store.Writer {
	t.Helper()
	p.off = true
	defer func() { p.off = false }()
	w, err := store.OpenWriter(t.Context(), s, guard, "sequence/", inFlight)
	must(t, err)
	return w
}

// writerOver returns a writer with four sequence keys, all of whose transactions go through rt.
func writerOver(t *testing.T, rt tripper) *store.Writer {
	t.Helper()
	consul := devconsul.New(devconsul.Config{NoJitter: true})
	defer consul.Close()
	way := consul.RoundTripper()
	s := over(t, tripper(func(r *http.Request) (*http.Response, error) { return way.RoundTrip(r) }))
	w, err := store.OpenWriter(t.Context(), s, guarded(t, s), "sequence/", 4)
	must(t, err)
	way = rt
	return w
}

// batched runs f with a store whose transactions are spied on, the guard
// already made and not among them.
func batched(t *testing.T, f func(t *testing.T, p *spy, s store.Store, guard store.Op)) {
	t.Helper()
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		guard := guarded(t, s)
		p := &spy{next: consul.RoundTripper()}
		f(t, p, over(t, p), guard)
	})
}
