package dispatch

import "sync"

// places counts requests against their limits. Nobody waits for a place.
type places struct {
	most, mostEach, mostWaiting int

	mu           sync.Mutex
	all, waiting int
	each         map[string]int // by member
}

func newPlaces(most, each int) places {
	return places{most: most, mostEach: each, mostWaiting: max(1, most/4), each: map[string]int{}}
}

// acquire takes a place of all requests.
func (p *places) acquire() bool { return p.count(&p.all, p.most) }

func (p *places) release() { p.less(&p.all) }

// wait takes a place of those that wait for a move to end or for Consul's answer. They have a place
// of all requests already, and leave three quarters of those to the others.
func (p *places) wait() bool { return p.count(&p.waiting, p.mostWaiting) }

func (p *places) waited() { p.less(&p.waiting) }

func (p *places) count(n *int, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *n >= most {
		return false
	}
	*n++
	return true
}

func (p *places) less(n *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n--
}

// enter moves a request's place from one member to another; an empty id is no member. False: the
// other one has none left, and the request has left the first.
func (p *places) enter(from, to string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from != "" {
		if p.each[from]--; p.each[from] <= 0 {
			delete(p.each, from)
		}
	}
	if to == "" {
		return true
	}
	if p.each[to] >= p.mostEach {
		return false
	}
	p.each[to]++
	return true
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}}
}

func (b *buffers) Get() []byte  { return *b.pool.Get().(*[]byte) }
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
