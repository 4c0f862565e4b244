package onzk

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// reading is what a node was at one moment.
type reading struct {
	// number orders the readings of a connection by when they were begun; 0: the node was never
	// read.
	number uint64
	exists bool
	data   []byte
	stat   zk.Stat
	// err is why it cannot be read since failing; the rest is as it was.
	err     error
	failing time.Time
}

// cell follows one node for all who are interested on this connection: one watch at the server, one
// reading for each change. The client has no way to take a watch back, so a cell lives on until its
// node changes, and is used again meanwhile.
type cell struct {
	path  string
	state *messages.State[reading]
	look  chan struct{} // cap 1: read it now, whether it has changed or not
	users int           // under Conn.mu
}

// follow returns the cell of the node; unfollow gives it back.
func (c *Conn) follow(path string) *cell {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.cells[path]
	if n == nil {
		n = &cell{path: path, state: messages.NewState(reading{}), look: make(chan struct{}, 1)}
		c.cells[path] = n
		c.spawnLocked(func() { c.run(n) })
	}
	n.users++
	return n
}

func (c *Conn) unfollow(n *cell) {
	if n == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.users--
}

// unused takes the cell out of use when nobody is interested any more.
func (c *Conn) unused(n *cell) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.users > 0 {
		return false
	}
	delete(c.cells, n.path)
	return true
}

// refresh has the node read anew, if somebody follows it.
func (c *Conn) refresh(paths ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range paths {
		if n := c.cells[path]; n != nil {
			select {
			case n.look <- struct{}{}:
			default:
			}
		}
	}
}

func (c *Conn) refreshAll() {
	c.mu.Lock()
	paths := slices.Collect(maps.Keys(c.cells))
	c.mu.Unlock()
	c.refresh(paths...)
}

func (c *Conn) run(n *cell) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.MaxElapsedTime = 50*time.Millisecond,
		time.Second, 0
	var armed <-chan zk.Event
	for c.ctx.Err() == nil {
		r, watch, err := c.read(n.path, armed == nil)
		if err != nil {
			if armed == nil && c.unused(n) {
				return
			}
			old := n.state.Get()
			if old.err == nil {
				old.failing = time.Now()
			}
			old.err = err
			n.state.Set(old)
			c.sleep(c.ctx, pause.NextBackOff())
			continue
		}
		pause.Reset()
		n.state.Set(r)
		if watch != nil {
			armed = watch
		}
		select {
		case <-armed: // a change, or the end of the watch
			armed = nil
			if c.unused(n) {
				return
			}
		case <-n.look:
		case <-c.ctx.Done():
		}
	}
}

// read returns the node as it is, and a channel that says when it changes if arm asks for that.
func (c *Conn) read(path string, arm bool) (r reading, watch <-chan zk.Event, err error) {
	type answer struct {
		r     reading
		watch <-chan zk.Event
	}
	got := make(chan answer, 1)
	session := c.session()
	err = c.call(c.ctx, func() error {
		a := answer{r: reading{number: c.readings.Add(1)}}
		var stat *zk.Stat
		var err error
		for {
			if arm {
				a.r.data, stat, a.watch, err = c.zk.GetW(path)
			} else {
				a.r.data, stat, err = c.zk.Get(path)
			}
			if !errors.Is(err, zk.ErrNoNode) {
				a.r.exists = true
				break
			}
			if !arm {
				err = nil
				break
			}
			if a.r.exists, _, a.watch, err = c.zk.ExistsW(path); err != nil || !a.r.exists {
				break
			}
			// It came between the two: read it with a watch of the right kind. The other one goes
			// with it.
		}
		if err != nil {
			return err
		}
		if stat != nil && a.r.exists {
			a.r.stat = *stat
		}
		got <- a
		return nil
	})
	if err != nil {
		return r, nil, err
	}
	a := <-got
	if a.watch != nil {
		c.dialer.watch(session)
	}
	return a.r, a.watch, nil
}

// settled waits until the cell holds a reading begun after number.
func (n *cell) settled(ctx context.Context, number uint64) (reading, error) {
	return n.state.Reader().Wait(ctx, func(r reading) bool {
		return r.number > number && r.err == nil
	})
}
