package devconsul

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config sets a Server up. The zero value is usable: every field has a default.
type Config struct {
	// NodeName is the name of the server's node; default "coordd-dev". For more nodes see AddAgent.
	NodeName string
	// NodeID is the UUID of the server's node; default: a random one.
	NodeID string
	// Datacenter defaults to "dc1".
	Datacenter string
	// Logger receives one record for each refused request, at debug level; default: none.
	Logger *slog.Logger
	// SessionTTLMin is the smallest session TTL that is accepted; default 10 s, Consul's own
	// session_ttl_min. The largest is 24 h.
	SessionTTLMin time.Duration
	// NoJitter takes away the random share, up to a sixteenth of the wait, that Consul adds.
	NoJitter bool
	// Hosts are the names that requests on a port may be for, beside addresses, localhost and this
	// host's own: a web page whose name was rebound to this address is refused. HostsFlag is what
	// adds one, for the refusal's text; default "Config.Hosts".
	Hosts     []string
	HostsFlag string
	// NewID makes session ids; default: random UUIDs. For tests that want a run to repeat exactly.
	NewID func() string
}

func (c Config) withDefaults() Config {
	if c.NodeName == "" {
		c.NodeName = "coordd-dev"
	}
	if c.Datacenter == "" {
		c.Datacenter = "dc1"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.SessionTTLMin <= 0 {
		c.SessionTTLMin = 10 * time.Second
	}
	if c.HostsFlag == "" {
		c.HostsFlag = "Config.Hosts"
	}
	if c.NewID == nil {
		c.NewID = newUUID
	}
	return c
}

var (
	// ErrClosed is returned when the server has been closed.
	ErrClosed = errors.New("devconsul: server closed")

	errNoLeader = errors.New("No cluster leader")
)

// Server is one embedded Consul: a server and the agent in front of it. Create it with New, end it
// with Close. It is safe for concurrent use.
type Server struct {
	cfg Config
	mux *http.ServeMux

	// state is replaced as a whole by each write, under mu; readers take no lock.
	state atomic.Pointer[state]

	// closed is closed by Close; it ends blocking queries.
	closed  chan struct{}
	blocked atomic.Int64

	mu         sync.Mutex
	isClosed   bool
	raftIndex  uint64
	leadership atomic.Pointer[leadership]
	timers     map[string]*sessionTimer
	reaped     time.Time // when tombstones were last removed
	lockDelays map[string]time.Time
	agents     []*Agent // the first one is the server's own
	onCommit   []func(Commit)
}

// New returns a running server that has one node and a leader. It listens nowhere: use it as an
// http.Handler, through RoundTripper or Client, or on a port with Serve.
func New(cfg Config) *Server {
	s := &Server{
		cfg:    cfg.withDefaults(),
		closed: make(chan struct{}),
	}
	own := s.newAgent(s.cfg.NodeName, "127.0.0.1")
	own.id = cmp.Or(cfg.NodeID, own.id)
	s.agents = []*Agent{own}
	s.routes()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bootLocked()
	return s
}

// bootLocked puts the server into the state of one that has just started, with empty data.
func (s *Server) bootLocked() {
	s.raftIndex = 5 // what an election and the leader's housekeeping have used up by now
	s.timers = make(map[string]*sessionTimer)
	s.lockDelays = make(map[string]time.Time)
	s.state.Store(newState())
	s.leadership.Store(newLeadership())
	for _, a := range s.agents {
		_ = a.registerLocked()
	}
}

// Close ends all timers and blocking queries; requests fail from then on. It may be called twice.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return
	}
	s.isClosed = true
	close(s.closed)
	s.stopTimersLocked()
	for _, a := range s.agents {
		a.stop()
	}
}

func (s *Server) stopTimersLocked() {
	for id, t := range s.timers {
		t.timer.Stop()
		delete(s.timers, id)
	}
}

// OnCommit has f called for every entry of the log from now on, in order, after it has been applied
// and before its caller gets the answer. f must not write to the server; it may read Dump.
func (s *Server) OnCommit(f func(Commit)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onCommit = append(s.onCommit, f)
}

// Commit is one applied log entry.
type Commit struct {
	Index uint64
	Time  time.Time
	// Applied is false when the entry was refused as a whole and changed nothing: a transaction
	// with a failed operation, a cas against another index, a lock that somebody holds.
	Applied bool
	Ops     []CommitOp
}

// CommitOp is one operation of a Commit. Verb is a KV verb of the HTTP API (set, cas, lock, unlock,
// delete, delete-cas, delete-tree, get, check-index …), or session-create, session-destroy,
// followed by session-release or session-delete for each key the session held, or register,
// deregister.
type CommitOp struct {
	Verb    string
	Key     string // key or prefix; for register and deregister the node
	Value   []byte // must not be changed
	Flags   uint64
	Session string
	Index   uint64 // the index that cas, delete-cas and check-index asked for
	OK      bool
	What    string // why not
}

// applyLocked runs one log entry. f says through the error whether its changes are kept. The error
// is f's, or says that there is no leader or that the server has been closed: then f did not run.
func (s *Server) applyLocked(f func(*writeTxn) error) error {
	if s.isClosed {
		return ErrClosed
	}
	if !s.leadership.Load().applies() {
		return errNoLeader
	}
	s.raftIndex++
	w := &writeTxn{state: *s.state.Load(), idx: s.raftIndex, now: time.Now(),
		lockDelays: s.lockDelays}
	if w.now.Sub(s.reaped) > tombstoneStep {
		s.reaped = w.now
		w.reapTombstones()
	}
	err := f(w)
	if err == nil {
		s.publishLocked(w)
	} else {
		next := *s.state.Load()
		next.applied = w.idx
		s.state.Store(&next)
	}
	if len(s.onCommit) > 0 {
		c := Commit{Index: w.idx, Time: w.now, Applied: err == nil && !w.refused, Ops: w.ops}
		for _, f := range s.onCommit {
			f(c)
		}
	}
	return err
}

// publishLocked makes the new state visible first and wakes the watchers after, so that they
// find the new state.
func (s *Server) publishLocked(w *writeTxn) {
	next, notify := w.commit()
	next.applied = w.idx
	s.state.Store(next)
	for _, t := range notify {
		t.Notify()
	}
	for _, id := range w.endedSessions {
		if t := s.timers[id]; t != nil {
			t.timer.Stop()
			delete(s.timers, id)
		}
	}
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
