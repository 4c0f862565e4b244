package dispatch

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// gate lets so many in at one time and nobody wait.
type gate struct {
	n    atomic.Int64
	most int64
}

func (g *gate) enter() bool { return g.take(1) }
func (g *gate) leave()      { g.give(1) }

// take is enter for n at once.
func (g *gate) take(n int64) bool {
	if g.n.Add(n) > g.most {
		g.n.Add(-n)
		return false
	}
	return true
}

func (g *gate) give(n int64) { g.n.Add(-n) }

// errNoRoom is returned for what does not fit into memory beside all else that is under way.
var errNoRoom = errors.New("no room")

// readAll reads at most so many bytes, all of which take their room from the gate as they come: one
// who sends slowly takes little. The room is to be given back, also after an error.
func (g *gate) readAll(r io.Reader, most int64) (all []byte, took int64, err error) {
	piece := make([]byte, 16<<10)
	for int64(len(all)) < most {
		n, err := r.Read(piece[:min(int64(len(piece)), most-int64(len(all)))])
		if n > 0 {
			if !g.take(int64(n)) {
				return nil, took, errNoRoom
			}
			took += int64(n)
			all = append(all, piece[:n]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, took, err
		}
	}
	return all, took, nil
}

// gates has a gate for each member.
type gates struct {
	most int
	mu   sync.Mutex
	n    map[string]int
}

func newGates(most int) gates { return gates{most: most, n: map[string]int{}} }

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
