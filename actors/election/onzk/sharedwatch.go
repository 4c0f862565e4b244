package onzk

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// reading is the state of a node at one moment.
type reading struct {
	// number orders the readings of a connection by their beginning; 0: the node was never read.
	number uint64
	// since: a reading with a higher number than that has begun when the node was as it is here. It
	// is lower than number where an event has told of the change.
	since uint64
	// found is the number of the last reading that has found the node; 0: none has.
	found uint64
	// session is the one in which the reading has begun. It says nothing once there is another: a
	// ZooKeeper that was set back may have lost the node, and made another of the name.
	session int64
	exists  bool
	data    []byte
	stat    zk.Stat
	// err is why the node cannot be read, since failing. The other fields keep their old values.
	// But where that is denied they say what needs no right: whether the node exists, and its stat.
	err     error
	failing time.Time
}

// unknown returns why it cannot be told who leads, by a reading of the leader's node; nil: it can.
// A node that is not ephemeral stands for nobody, whatever its data.
func (r reading) unknown() error {
	if errors.Is(r.err, zk.ErrNoAuth) && !ephemeral(&r.stat) {
		return nil
	}
	return r.err
}

// sharedWatch follows one node for all who are interested on this connection. It costs one watch at
// the server, and one reading for each change. The client cannot remove a watch. So a sharedWatch
// without users stays until its node changes, and serves whoever follows the node before that.
type sharedWatch struct {
	path   string
	once   bool // a node of this name that is gone never comes back
	state  *messages.State[reading]
	reread chan struct{} // cap 1: read it now, whether it has changed or not
	users  int           // under Conn.mu
}

// follow returns the shared watch of the node. unfollow gives it back.
func (c *Conn) follow(path string) *sharedWatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.sharedWatches[path]
	if n == nil {
		n = &sharedWatch{path: path, once: isCandidate(path), state: messages.NewState(reading{}),
			reread: make(chan struct{}, 1)}
		c.sharedWatches[path] = n
		c.spawnLocked("the watch of "+path, func() { c.run(n) })
	}
	n.users++
	return n
}

func (c *Conn) unfollow(n *sharedWatch) {
	if n == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.users--; n.users == 0 && n.once {
		n.wake() // if it is gone, nothing else ends its loop
	}
}

// wake has the node read again, whether it has changed or not.
func (n *sharedWatch) wake() {
	select {
	case n.reread <- struct{}{}:
	default:
	}
}

// unused removes the shared watch and returns true if it has no users.
func (c *Conn) unused(n *sharedWatch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.users > 0 {
		return false
	}
	delete(c.sharedWatches, n.path)
	return true
}

// refresh reads the nodes again, those that somebody follows.
func (c *Conn) refresh(paths ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range paths {
		if n := c.sharedWatches[path]; n != nil {
			n.wake()
		}
	}
}

func (c *Conn) refreshAll() {
	c.mu.Lock()
	paths := slices.Collect(maps.Keys(c.sharedWatches))
	c.mu.Unlock()
	c.refresh(paths...)
}

// risingPause returns pauses that begin at 50 ms and rise to most.
func risingPause(most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.MaxElapsedTime = 50*time.Millisecond, most, 0
	b.Reset() // else it begins with the library's 500 ms
	return b
}

func (c *Conn) run(n *sharedWatch) {
	pause := risingPause(time.Second)
	var armed <-chan zk.Event
	deleted := uint64(0) // readings before the event that said so; 0: there was none
	found := uint64(0)
	for c.ctx.Err() == nil {
		r, watch, err := c.read(n, armed == nil, deleted)
		deleted = 0
		if r.exists {
			found = r.number
		}
		r.found = found
		if err != nil {
			if armed == nil && c.unused(n) {
				return
			}
			n.state.Set(n.failed(r, err))
			c.sleep(c.ctx, pause.NextBackOff())
			continue
		}
		pause.Reset()
		n.state.Set(r)
		if watch != nil {
			armed = watch
		}
		select {
		case event := <-armed: // a change, or the end of the watch
			armed = nil
			if c.unused(n) {
				return
			}
			if event.Type == zk.EventNodeDeleted {
				deleted = c.readings.Load()
			}
		case <-n.reread:
			if armed == nil && c.unused(n) {
				return
			}
		case <-c.ctx.Done():
		}
	}
}

// failed returns the reading after one that has failed: r, if that is denied, and else what was
// read last.
func (n *sharedWatch) failed(r reading, err error) reading {
	old := n.state.Get()
	if r.number == 0 {
		r = old
	} else if old.exists && old.stat.Czxid == r.stat.Czxid {
		r.data = old.data
	}
	if r.err, r.failing = err, old.failing; old.err == nil {
		r.failing = time.Now()
	}
	return r
}

// read returns the node as it is. If arm is true it also sets a watch and returns its channel; nil:
// there is nothing to wait for. deleted: after so many readings an event has said that the node was
// deleted; 0: none has. Where that is denied r says what it can, and has a number.
func (c *Conn) read(n *sharedWatch, arm bool, deleted uint64) (r reading, watch <-chan zk.Event,
	err error) {
	if deleted > 0 && n.once {
		return reading{number: c.readings.Add(1), since: deleted, session: c.session()}, nil, nil
	}
	type answer struct {
		r      reading
		watch  <-chan zk.Event
		denied error
	}
	got, path := make(chan answer, 1), n.path
	if arm {
		c.dialer.watch() // before the client has it
	}
	err = c.call(c.ctx, func() error {
		a := answer{r: reading{number: c.readings.Add(1), session: c.session()}}
		var stat *zk.Stat
		var err error
		a.r.since = a.r.number - 1
		for gone := deleted > 0; ; gone = false {
			if gone { // most probably nobody leads yet: one request in place of two
				a.r.exists, _, a.watch, err = c.zk.ExistsW(path)
				if err != nil || !a.r.exists {
					a.r.since = deleted
					break
				}
			}
			if arm {
				a.r.data, stat, a.watch, err = c.zk.GetW(path)
			} else {
				a.r.data, stat, err = c.zk.Get(path)
			}
			if !errors.Is(err, zk.ErrNoNode) {
				a.r.exists = true
				break
			}
			if !arm || n.once {
				// A watch on what never comes would last as long as the session.
				err = nil
				break
			}
			if a.r.exists, _, a.watch, err = c.zk.ExistsW(path); err != nil || !a.r.exists {
				break
			}
			// The node was created between the two calls. Read it with a watch on its data, which
			// replaces the one on its existence.
		}
		if errors.Is(err, zk.ErrNoAuth) {
			denied := err
			if a.r.exists, stat, err = c.zk.Exists(path); a.r.exists {
				a.denied, a.watch = denied, nil
			}
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
		c.dialer.watch() // it may have waited for another session
	}
	return a.r, a.watch, a.denied
}
