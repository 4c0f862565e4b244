package devzookeeper

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Tick is ZooKeeper's usual one. Sessions last for two to twenty of them.
const Tick = 2 * time.Second

// syncLimit is for how many ticks a server that is cut off from the others goes on.
const syncLimit = 5

// firstZxid is the zxid before those of all transactions.
const firstZxid = 1 << 32

// Server is the ensemble.
type Server struct {
	mu       sync.Mutex
	zxid     int64
	tree     *tree
	done     []*transaction
	sessions map[int64]*session
	last     int64 // the newest session
	conns    map[*conn]bool
	ways     []*Way
	work     sync.WaitGroup // of all connections
	down     bool
	requests int
}

type session struct {
	id      int64
	timeout time.Duration
	owner   *conn
	expires *time.Timer
}

// New returns a server with nothing in it.
func New() *Server {
	return &Server{zxid: firstZxid, last: 1 << 56,
		sessions: map[int64]*session{}, conns: map[*conn]bool{}, tree: newTree()}
}

// commit ends a draft, and has the servers of all connections hear of it.
func (s *Server) commit(d *draft) {
	s.done = append(s.done, &d.transaction)
	at := len(s.done)
	for c := range s.conns {
		if c.way.lag == 0 {
			c.advance(at)
			continue
		}
		time.AfterFunc(c.way.lag, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			c.advance(at)
		})
	}
}

// touch starts a session's timeout anew.
func (s *Server) touch(of *session) {
	if s.sessions[of.id] == of && !s.down {
		of.expires.Reset(of.timeout)
	}
}

// endSession ends a session for any client.
func (s *Server) endSession(id int64) {
	of := s.sessions[id]
	if of == nil {
		return
	}
	of.expires.Stop()
	delete(s.sessions, id)
	d := s.begin(0)
	d.end(id)
	s.commit(d)
}

// open makes a session.
func (s *Server) open(asked time.Duration, owner *conn) *session {
	s.last++
	of := s.keep(s.last, min(max(asked, 2*Tick), 20*Tick), owner)
	s.commit(s.begin(of.id))
	return of
}

// keep has a session end after its timeout.
func (s *Server) keep(id int64, timeout time.Duration, owner *conn) *session {
	of := &session{id: id, timeout: timeout, owner: owner}
	of.expires = time.AfterFunc(of.timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.down {
			s.endSession(of.id)
		}
	})
	s.sessions[of.id] = of
	return of
}

// End ends a session before its time, as a client with its password may.
func (s *Server) End(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSession(session)
}

// Known tells whether a session has not ended.
func (s *Server) Known(session int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[session] != nil
}

// Requests counts the requests so far, but for handshakes.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Stop ends all servers as a crash does. What was committed survives.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for _, of := range s.sessions {
		of.expires.Stop()
	}
	s.drop()
}

// Start brings them back.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	for _, of := range s.sessions {
		of.expires.Reset(of.timeout)
	}
}

// Elect has the ensemble elect another leader: all connections break, and all timeouts begin anew.
func (s *Server) Elect() {
	s.Stop()
	s.Start()
}

// Close ends it for good, and waits for what is under way. Sessions stay as they are.
func (s *Server) Close() {
	s.Stop()
	s.Settle()
	s.work.Wait()
}

// Settle settles all ways.
func (s *Server) Settle() {
	s.mu.Lock()
	ways := s.ways
	s.mu.Unlock()
	for _, w := range ways {
		w.Settle()
	}
}

// detach has the servers of a way keep what they have.
func (s *Server) detach(w *Way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.way == w && c.tree == s.tree {
			c.tree = s.tree.copy()
		}
	}
}

func (s *Server) drop() {
	for c := range maps.Clone(s.conns) {
		c.hangUp()
	}
}

// Node is what a node holds.
type Node struct {
	Data []byte
	Stat zk.Stat
}

// Nodes returns all nodes below a path, by their names from there on.
func (s *Server) Nodes(below string) map[string]Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]Node{}
	for path, n := range s.tree.nodes {
		if name, ok := strings.CutPrefix(path, below+"/"); ok {
			found[name] = Node{Data: n.data, Stat: s.tree.stat(path)}
		}
	}
	return found
}

// Keep takes from everybody the right to create nodes in a node.
func (s *Server) Keep(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := *s.tree.nodes[path]
	n.kept = true
	s.tree.put(path, &n)
}

// Write writes into a node, or makes it, as another program does.
func (s *Server) Write(path string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.begin(0)
	if d.set(path, data, -1) == errNoNode {
		d.create(&zk.CreateRequest{Path: path, Data: data})
	}
	s.commit(d)
}

// Watches are the nodes that are watched, once for each connection.
func (s *Server) Watches() (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		paths = slices.AppendSeq(paths, maps.Keys(c.data))
	}
	return paths
}
