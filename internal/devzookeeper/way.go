package devzookeeper

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Weather is what happens to packets on a way. The zero value is calm.
type Weather struct {
	// Rand draws what becomes of each packet. Nil: nothing is drawn.
	Rand *rand.Rand
	// Slow is what a packet may take, in each direction.
	Slow time.Duration
	// Late is by how much the last packets of a connection that breaks may be late.
	Late time.Duration
	// Lag is how far the servers at its end are behind the leader.
	Lag time.Duration
	// Breaks is one in how many packets a connection breaks at. 0: none does.
	Breaks int
}

// Way is one client's way to the ensemble. It can be cut: nothing arrives in either direction until
// it is mended. What was sent meanwhile arrives then, also from a client that has hung up since.
type Way struct {
	server *Server
	lag    time.Duration

	mu      sync.Mutex
	weather Weather
	calm    bool
	cut     chan struct{} // not nil: cut; closed when it is mended
	apart   chan struct{} // not nil: its server is cut off from the others
	conns   map[*wire]bool
	trap    func() // not nil: called once, beside the packet that comes after trapIn others
	trapIn  int
	dead    bool // the client is
}

// Way returns a new one.
func (s *Server) Way(w Weather) *Way {
	way := &Way{server: s, weather: w, lag: w.Lag, calm: w.Rand == nil, conns: map[*wire]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ways = append(s.ways, way)
	return way
}

// Sever cuts the way.
func (w *Way) Sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = make(chan struct{})
	}
}

// Mend undoes Sever. With reset the connections of before are broken.
func (w *Way) Mend(reset bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut != nil {
		close(w.cut)
		w.cut = nil
	}
	if reset {
		for c := range w.conns {
			c.breakOff()
		}
	}
}

// Isolate cuts the servers of this way off from the others, until Join or for five ticks.
func (w *Way) Isolate() {
	w.mu.Lock()
	if w.apart != nil {
		w.mu.Unlock()
		return
	}
	apart := make(chan struct{})
	w.apart = apart
	w.mu.Unlock()
	w.server.detach(w)
	time.AfterFunc(syncLimit*Tick, func() { w.join(apart) })
}

// Join undoes Isolate.
func (w *Way) Join() {
	w.mu.Lock()
	apart := w.apart
	w.mu.Unlock()
	if apart != nil {
		w.join(apart)
	}
}

// join ends the connections, as a server does that has to find the others again.
func (w *Way) join(apart chan struct{}) {
	w.mu.Lock()
	if w.apart != apart {
		w.mu.Unlock()
		return
	}
	w.apart = nil
	close(apart)
	for c := range w.conns {
		c.breakOff()
	}
	w.mu.Unlock()
}

func (w *Way) isolated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.apart != nil
}

// Kill ends the client: what it has sent arrives as it would, and nothing of what it sends later.
func (w *Way) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for c := range w.conns {
		c.in.add(nil)
	}
}

// Trap has f called, in a goroutine of its own, as the packet after n others is sent.
func (w *Way) Trap(n int, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap, w.trapIn = f, n
}

func (w *Way) sent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trap == nil {
		return
	}
	if w.trapIn--; w.trapIn < 0 {
		go w.trap()
		w.trap = nil
	}
}

func (w *Way) killed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// Settle ends all of it for good.
func (w *Way) Settle() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.Mend(false)
	w.Join()
}

func (w *Way) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || n <= 0 {
		return -1
	}
	return w.weather.Rand.IntN(n)
}

func (w *Way) within(d time.Duration) time.Duration {
	if n := w.draw(int(d) + 1); n > 0 {
		return time.Duration(n)
	}
	return 0
}

func (w *Way) sameServer() bool { return w.draw(2) == 0 }
func (w *Way) behind() bool     { return w.draw(4) > 0 }

func (w *Way) passage() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// Dial is the client's dialer.
func (w *Way) Dial(_, _ string, timeout time.Duration) (net.Conn, error) {
	if cut := w.passage(); cut != nil {
		wait := time.NewTimer(timeout)
		defer wait.Stop()
		select {
		case <-cut:
		case <-wait.C:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}
	}
	w.server.mu.Lock()
	down := w.server.down
	w.server.mu.Unlock()
	if w.killed() {
		time.Sleep(time.Millisecond)
		return nil, net.ErrClosed
	}
	if down {
		// a moment, as the client tries again at once
		time.Sleep(time.Millisecond)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	near, far := net.Pipe()
	c := &wire{way: w, far: far, in: newQueue(), out: newQueue()}
	w.mu.Lock()
	w.conns[c] = true
	w.mu.Unlock()
	c.conn = w.server.connect(w, c.out.add)
	w.server.work.Go(c.receive)
	w.server.work.Go(c.deliver)
	w.server.work.Go(c.answer)
	return near, nil
}

// wire is one connection.
type wire struct {
	way     *Way
	far     net.Conn
	conn    *conn
	in, out *queue
}

// breakOff ends the connection for the client. What it has sent is delivered all the same.
func (c *wire) breakOff() { _ = c.far.Close() }

// receive takes packets from the client.
func (c *wire) receive() {
	defer c.in.add(nil)
	for {
		var size [4]byte
		if _, err := io.ReadFull(c.far, size[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c.far, packet); err != nil {
			return
		}
		c.way.sent()
		c.in.add(packet)
	}
}

// deliver brings packets to the server, one after the other.
func (c *wire) deliver() {
	defer func() {
		c.conn.server.mu.Lock()
		c.conn.hangUp()
		c.conn.server.mu.Unlock()
		c.way.mu.Lock()
		delete(c.way.conns, c)
		c.way.mu.Unlock()
	}()
	for {
		packet := c.in.next()
		if packet == nil {
			return
		}
		time.Sleep(100*time.Microsecond + c.way.pause())
		for cut := c.way.passage(); cut != nil; cut = c.way.passage() {
			<-cut
		}
		if n := c.way.draw(c.way.weather.Breaks); n == 0 {
			c.breakOff()
			switch c.way.draw(3) {
			case 0:
				return // lost
			case 1:
				time.Sleep(c.way.within(c.way.weather.Late))
			}
		}
		for !c.conn.take(packet) {
			c.way.mu.Lock()
			apart := c.way.apart
			c.way.mu.Unlock()
			if apart != nil {
				<-apart
				return // its server has lost what it could not pass on
			}
		}
	}
}

// pause is what a packet takes: most take little.
func (w *Way) pause() time.Duration {
	if w.draw(3) == 0 {
		return w.within(w.weather.Slow)
	}
	return w.within(2 * time.Millisecond)
}

// answer brings packets to the client.
func (c *wire) answer() {
	defer c.far.Close()
	for {
		packet := c.out.next()
		if packet == nil {
			return
		}
		time.Sleep(c.way.pause())
		for cut := c.way.passage(); cut != nil; cut = c.way.passage() {
			<-cut
		}
		if _, err := c.far.Write(packet); err != nil {
			return
		}
	}
}

// queue holds packets until they are taken. It ends with a nil one.
type queue struct {
	mu   sync.Mutex
	all  [][]byte
	more chan struct{} // cap 1
}

func newQueue() *queue { return &queue{more: make(chan struct{}, 1)} }

func (q *queue) add(packet []byte) {
	q.mu.Lock()
	q.all = append(q.all, packet)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue) next() []byte {
	for {
		q.mu.Lock()
		if len(q.all) > 0 {
			first := q.all[0]
			q.all = q.all[1:]
			q.mu.Unlock()
			return first
		}
		q.mu.Unlock()
		<-q.more
	}
}
