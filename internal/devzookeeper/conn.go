package devzookeeper

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// The requests of ZooKeeper's protocol.
const (
	opCreate       = 1
	opDelete       = 2
	opExists       = 3
	opGetData      = 4
	opSetData      = 5
	opSync         = 9
	opPing         = 11
	opGetChildren2 = 12
	opCheck        = 13
	opMulti        = 14
	opSetAuth      = 100
	opSetWatches   = 101
	opClose        = -11
	opError        = -1
)

// Whom an answer is for that is to no request.
const (
	xidEvent = -1
	xidPing  = -2
)

// conn is one connection, and the server that it is to. Server.mu guards it.
type conn struct {
	server  *Server
	way     *Way
	send    func(packet []byte) // never blocks; nil: the connection ends behind what was sent
	at      int                 // of the transactions, how many this server has
	tree    *tree               // what it has of the nodes; the Server's own if it is never behind
	session *session            // nil: no handshake yet
	data    map[string]bool     // watched
	touched bool                // something since its server last answered a ping of the leader's
	pings   *time.Timer
	over    bool
}

func (s *Server) connect(w *Way, send func([]byte)) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &conn{server: s, way: w, send: send, at: len(s.done), tree: s.tree,
		data: map[string]bool{}}
	if s.down {
		c.over = true
		send(nil)
		return c
	}
	s.conns[c] = true
	c.pings = time.AfterFunc(Tick/2, c.ping)
	return c
}

// ping is the leader's, of this connection's server.
func (c *conn) ping() {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.over {
		return
	}
	if c.touched && c.session != nil && !c.way.isolated() {
		s.touch(c.session)
		c.touched = false
	}
	c.pings.Reset(Tick / 2)
}

// hangUp ends the connection from the server's side.
func (c *conn) hangUp() {
	if c.over {
		return
	}
	c.over = true
	c.pings.Stop()
	delete(c.server.conns, c)
	c.send(nil)
}

// advance has the server hear of the transactions up to one.
func (c *conn) advance(to int) {
	if c.way.isolated() {
		return
	}
	for c.at < to && !c.over {
		done := c.server.done[c.at]
		c.at++
		for _, change := range done.changes {
			if c.tree != c.server.tree {
				c.tree.put(change.path, change.is)
			}
		}
		for _, e := range done.events {
			c.tell(e)
		}
		if c.session != nil && done.ended == c.session.id {
			c.hangUp()
		}
	}
}

// tell fires a watch if there is one.
func (c *conn) tell(e event) {
	told := c.data[e.path]
	delete(c.data, e.path)
	if told {
		c.event(e)
	}
}

func (c *conn) event(e event) {
	w := header(xidEvent, -1, errOK)
	w.int(int32(e.kind)).int(3).bytes([]byte(e.path)) // 3: connected
	c.send(w.packet())
}

func header(xid int32, zxid int64, code int32) *writer {
	return new(writer).int(xid).long(zxid).int(code)
}

func password(session int64) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(session)))
	return sum[:16]
}

// take does what a packet asks for. It returns false for one that has to wait until the server is
// back among the others.
func (c *conn) take(packet []byte) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.over {
		return true
	}
	r := &reader{packet}
	if c.session == nil {
		if c.way.isolated() {
			return false
		}
		c.handshake(r)
		return true
	}
	xid, op := r.int(), r.int()
	if c.way.isolated() && op != opPing && op != opExists && op != opGetData &&
		op != opGetChildren2 && op != opSetWatches && op != opSetAuth {
		return false
	}
	c.touched = true
	c.request(xid, op, r)
	return true
}

func (c *conn) handshake(r *reader) {
	s := c.server
	r.int() // the protocol's version
	seen, asked, id := r.long(), time.Duration(r.int())*time.Millisecond, r.long()
	key := r.bytes()
	if seen > s.zxid { // the client has been where this server has yet to come
		c.hangUp()
		return
	}
	if id == 0 {
		c.session = s.open(asked, c)
	} else if of := s.sessions[id]; of != nil && string(key) == string(password(id)) {
		if old := of.owner; old != nil && old != c && c.way.sameServer() {
			old.hangUp()
		}
		c.session, of.owner = of, c
		s.touch(of)
	}
	if c.way.lag > 0 {
		// Its server may be behind, but neither behind the client nor behind a session's beginning.
		c.at, c.tree = len(s.done), s.tree.copy()
		for c.at > 0 && id != 0 && s.done[c.at-1].zxid > seen && c.way.behind() {
			c.at--
			for _, change := range slices.Backward(s.done[c.at].changes) {
				c.tree.put(change.path, change.was)
			}
		}
		time.AfterFunc(c.way.lag, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			c.advance(len(s.done))
		})
	}
	answer := new(writer).int(0)
	if c.session == nil {
		c.send(answer.int(0).long(0).bytes(make([]byte, 16)).packet())
		c.hangUp()
		return
	}
	id = c.session.id
	c.send(answer.int(int32(c.session.timeout / time.Millisecond)).long(id).bytes(password(id)).
		packet())
}

func (c *conn) request(xid, op int32, r *reader) {
	c.server.requests++
	switch op {
	case opPing:
		c.send(header(xidPing, c.zxid(), errOK).packet())
	case opExists, opGetData, opGetChildren2:
		c.read(xid, op, r.string(), r.bool())
	case opSetWatches:
		c.setWatches(r)
		c.send(header(xid, c.zxid(), errOK).packet())
	case opSetAuth:
		c.send(header(xid, c.zxid(), errOK).packet())
	case opSync:
		path := r.string()
		c.advance(len(c.server.done))
		if !c.over {
			c.send(header(xid, c.zxid(), errOK).bytes([]byte(path)).packet())
		}
	case opCreate, opDelete, opSetData, opMulti, opClose:
		c.write(xid, op, r)
	default:
		c.send(header(xid, c.zxid(), errUnimplemented).packet())
	}
}

// zxid is that of the newest transaction that the connection's server has.
func (c *conn) zxid() int64 {
	if c.at == 0 {
		return firstZxid
	}
	return c.server.done[c.at-1].zxid
}

func (c *conn) read(xid, op int32, path string, watch bool) {
	n, ok := c.tree.nodes[path]
	if watch && (ok || op == opExists) {
		c.data[path] = true
	}
	if !ok {
		c.send(header(xid, c.zxid(), errNoNode).packet())
		return
	}
	w := header(xid, c.zxid(), errOK)
	switch op {
	case opGetData:
		w.bytes(n.data)
	case opGetChildren2:
		names := c.tree.children[path]
		w.int(int32(len(names)))
		for name := range names {
			w.bytes([]byte(name))
		}
	}
	c.send(w.stat(c.tree.stat(path)).packet())
}

func (c *conn) setWatches(r *reader) {
	now, since := c.tree, r.long()
	for _, path := range r.strings() {
		switch n, ok := now.nodes[path]; {
		case !ok:
			c.event(event{zk.EventNodeDeleted, path})
		case n.stat.Mzxid > since:
			c.event(event{zk.EventNodeDataChanged, path})
		default:
			c.data[path] = true
		}
	}
	for _, path := range r.strings() {
		if _, ok := now.nodes[path]; ok {
			c.event(event{zk.EventNodeCreated, path})
		} else {
			c.data[path] = true
		}
	}
}

// write has the ensemble commit something.
func (c *conn) write(xid, op int32, r *reader) {
	s := c.server
	switch of := s.sessions[c.session.id]; {
	case of == nil:
		c.send(header(xid, s.zxid, errSessionExpired).packet())
		c.hangUp()
		return
	case of.owner != c:
		c.send(header(xid, s.zxid, errSessionMoved).packet())
		c.hangUp()
		return
	}
	if op == opClose {
		s.endSession(c.session.id)
		c.send(header(xid, s.zxid, errOK).packet())
		c.hangUp()
		return
	}
	d := s.begin(c.session.id)
	answer, code := new(writer), int32(errOK)
	if op == opMulti {
		answer = d.multi(r)
	} else {
		code = d.do(op, r, answer)
	}
	if code != errOK {
		d.undo()
	}
	s.commit(d)
	c.advance(len(s.done)) // its server has it before it answers
	if c.over {
		return
	}
	w := header(xid, d.zxid, code)
	if code == errOK {
		w.text = append(w.text, answer.text...)
	}
	c.send(w.packet())
}

// do adds one operation to a transaction, and what is answered to it.
func (d *draft) do(op int32, r *reader, answer *writer) int32 {
	switch op {
	case opCreate:
		path, code := d.create(r.create())
		answer.bytes([]byte(path))
		return code
	case opDelete:
		return d.delete(r.string(), r.int())
	case opCheck:
		return d.check(r.string(), r.int())
	}
	path, data := r.string(), r.bytes()
	code := d.set(path, data, r.int())
	answer.stat(d.stat(path))
	return code
}

// multi does all or nothing. After the operation that fails the others are not looked at.
func (d *draft) multi(r *reader) *writer {
	var ops []int32
	var answers []*writer
	failed, why := -1, int32(errOK)
	for {
		op, done := r.int(), r.bool()
		r.int()
		if done || len(r.left) == 0 {
			break
		}
		answer := new(writer)
		code := d.do(op, r, answer)
		if failed < 0 && code != errOK {
			failed, why = len(ops), code
		}
		ops, answers = append(ops, op), append(answers, answer)
	}
	w := new(writer)
	for i, op := range ops {
		if failed < 0 {
			w.int(op).bool(false).int(errOK)
			w.text = append(w.text, answers[i].text...)
			continue
		}
		code := int32(errOK)
		switch {
		case i == failed:
			code = why
		case i > failed:
			code = errInconsistency
		}
		w.int(opError).bool(false).int(code).int(code)
	}
	if failed >= 0 {
		d.undo()
	}
	return w.int(-1).bool(true).int(-1)
}
