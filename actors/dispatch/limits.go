package dispatch

import (
	"sync"
	"sync/atomic"
)

// gate lets so many in at one time and nobody wait.
type gate struct {
	n    atomic.Int64
	most int64
}

func (g *gate) enter() bool {
	if g.n.Add(1) > g.most {
		g.n.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.n.Add(-1) }

// gates has a gate for each member.
type gates struct {
	most int
	mu   sync.Mutex
	n    map[string]int
}

func (g *gates) enter(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n[id] >= g.most {
		return false
	}
	g.n[id]++
	return true
}

func (g *gates) leave(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n[id]--; g.n[id] <= 0 {
		delete(g.n, id)
	}
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}}
}

func (b *buffers) Get() []byte  { return *b.pool.Get().(*[]byte) }
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
