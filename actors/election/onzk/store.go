package onzk

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/backend"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// nodeStore is the backend.Store of one election.
type nodeStore struct {
	conn *Conn
	base string // path of the election's node, which holds its state
	// busy is full while a request is under way, even if its caller has gone. So no request
	// overtakes another.
	busy chan struct{}

	mu       sync.Mutex
	readings uint64
	id, node string // of this participant's candidate
}

func newNodeStore(c *Conn, name string) *nodeStore {
	return &nodeStore{conn: c, base: c.cfg.Root + "/" + name, busy: make(chan struct{}, 1)}
}

func (s *nodeStore) path(child string) string { return s.base + "/" + child }

func (s *nodeStore) leader() string { return s.path(leaderNode) }

const leaderNode = "leader"

// identity is a child that lives as long as the election, and whose name is never used again. Each
// transaction needs it: ZooKeeper has no condition on a zxid, and the versions of another election
// of the same name may be the same.
func (s *nodeStore) identity(id string) string { return s.path("_e_" + id) }

// candidatePattern is that of the candidates' nodes: the id, the priority and the sequence. A
// sequence has ten digits, or a sign and nine. It is a signed 32-bit number: after the largest one
// it goes on with the negative ones, of which the smallest have a sign and ten.
var candidatePattern = regexp.MustCompile(
	`^_c_([^/]+)-p(-?[0-9]+)-n(-[0-9]{9}|-?[0-9]{10})$`)

// place is what the name of a candidate's node says.
type place struct {
	node, id string
	priority int
	sequence int32
}

// queue returns the candidates among the children in the order in which they lead. It ignores other
// names.
func queue(children []string) (all []place) {
	for _, name := range children {
		m := candidatePattern.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		priority, _ := strconv.Atoi(m[2])
		sequence, err := strconv.ParseInt(m[3], 10, 32)
		if err == nil {
			all = append(all, place{name, m[1], priority, int32(sequence)})
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		// The difference of the sequences decides, not the size: after 2147483647 comes
		// -2147483648.
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.sequence-b.sequence, 0))
	})
	return all
}

func (s *nodeStore) Contact() messages.Reader[election.Contact] { return s.conn.state }

func (s *nodeStore) Session(ctx context.Context) (string, error) {
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, _ := s.conn.state.Wait(soon, func(c election.Contact) bool {
		return c.Session != "" || c.Closed
	})
	if c.Session == "" {
		return "", errors.New(
			"no session with ZooKeeper: no server has answered yet, or none does any more")
	}
	return c.Session, nil
}

func (s *nodeStore) Lives(session string) bool {
	return session != "" && s.conn.state.Get().Session == session
}

func (s *nodeStore) Passing(err error) bool {
	return errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrConnectionClosed) ||
		errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrSessionMoved) ||
		errors.Is(err, errNoCredentials)
}

// do runs f, which makes requests, after all earlier ones.
func (s *nodeStore) do(ctx context.Context, f func(*zk.Conn) error) error {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the last request is not done yet: %w", ctx.Err())
	}
	err := s.conn.awaitCredentials(ctx)
	if err != nil {
		<-s.busy
		return err
	}
	err = s.conn.request(ctx, func() error {
		defer func() { <-s.busy }()
		return f(s.conn.zk)
	})
	if errors.Is(err, zk.ErrNoAuth) {
		err = fmt.Errorf("%w: %w; this user needs all rights but admin (cdrw) on %s",
			election.ErrDenied, err, s.base)
	}
	return err
}

func (s *nodeStore) Read(ctx context.Context, id string) (backend.Reading, error) {
	return s.read(ctx, id, &watched{path: s.base, once: true},
		&watched{path: s.leader(), once: true})
}

// read reads the state first, then the leader's node. In the other order the state may be that of a
// leader who is still there, and its lock-delay would be counted from now on.
func (s *nodeStore) read(ctx context.Context, id string, state, leader *watched) (backend.Reading,
	error) {
	answer := make(chan backend.Reading, 1)
	err := s.do(ctx, func(c *zk.Conn) error {
		s.mu.Lock()
		s.readings++
		r := backend.Reading{Index: s.readings}
		s.mu.Unlock()
		if state.once { // this server may be behind what others know
			if _, err := c.Sync(s.base); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
		data, stat, err := state.read(c)
		if err != nil {
			return err
		}
		if stat != nil {
			r.Incarnation, r.Version = uint64(stat.Czxid), uint64(stat.Version)+1
			if err := json.Unmarshal(data, &r.State); err != nil || r.State.ID == "" {
				return s.foreign("is no election's node")
			}
		}
		data, stat, err = leader.read(c)
		if err != nil {
			return err
		}
		if stat != nil && stat.EphemeralOwner != 0 {
			r.Session, r.Token = sessionName(stat.EphemeralOwner), uint64(stat.Czxid)
			if r.Leader, _ = backend.ParseCandidate(data); r.Leader.ID == "" {
				r.Leader = election.Candidate{ID: fmt.Sprintf("zxid-%x", stat.Czxid),
					Name: "(its record cannot be read)"}
			}
		}
		if id != "" && r.Incarnation != 0 {
			if err := s.find(c, id, &r); err != nil {
				return err
			}
		}
		answer <- r
		return nil
	})
	if err != nil {
		return backend.Reading{}, err
	}
	return <-answer, nil
}

func (s *nodeStore) foreign(what string) error {
	return fmt.Errorf("%w: %s %s: choose another root or name", election.ErrInvalid, s.base, what)
}

// find looks for the node of a candidate. One whose creation was not heard of is found by its id.
func (s *nodeStore) find(c *zk.Conn, id string, r *backend.Reading) error {
	s.mu.Lock()
	if id == s.id {
		r.Node = s.node
	}
	s.mu.Unlock()
	if r.Node == "" {
		children, _, err := c.Children(s.base)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		for _, p := range queue(children) {
			if p.id == id {
				r.Node = p.node
			}
		}
	}
	if r.Node == "" {
		return nil
	}
	there, stat, err := c.Exists(s.path(r.Node))
	if err == nil && there {
		r.Owner = sessionName(stat.EphemeralOwner)
	} else if err == nil { // it is gone, and may be made again
		s.made("", "")
	}
	return err
}

// made notes the node of this participant's candidate.
func (s *nodeStore) made(id, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.node = id, node
}

// watched is a node that is read again and again.
type watched struct {
	path  string
	event <-chan zk.Event // of a change since the last reading; nil: there is no watch
	once  bool            // it needs no watch
}

// read reads the node, and sets a watch if there is none: the client cannot take one back. stat is
// nil if there is no node.
func (w *watched) read(c *zk.Conn) (data []byte, stat *zk.Stat, err error) {
	for {
		if w.once || w.event != nil {
			data, stat, err = c.Get(w.path)
		} else {
			data, stat, w.event, err = c.GetW(w.path)
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return data, stat, err
		}
		if w.once || w.event != nil {
			return nil, nil, nil
		}
		var there bool
		if there, _, w.event, err = c.ExistsW(w.path); err != nil || !there {
			return nil, nil, err
		}
	}
}

func (s *nodeStore) Watch(ctx context.Context, seen func(backend.Reading, error)) {
	state, leader := &watched{path: s.base}, &watched{path: s.leader()}
	connections := s.conn.connections.Subscribe()
	for {
		connections.Take()
		r, err := s.read(ctx, "", state, leader)
		if ctx.Err() != nil {
			return
		}
		if seen(r, err); err != nil {
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.conn.ctx.Done(): // Contact tells that the connection is closed
			<-ctx.Done()
			return
		case <-state.event:
			state.event = nil
		case <-leader.event:
			leader.event = nil
		case <-connections.Changed():
		}
	}
}

func (s *nodeStore) children(ctx context.Context) (places []place, err error) {
	answer := make(chan []place, 1)
	err = s.do(ctx, func(c *zk.Conn) error {
		_, err := c.Sync(s.base)
		var children []string
		if err == nil {
			children, _, err = c.Children(s.base)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		answer <- queue(children)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

func (s *nodeStore) Queue(ctx context.Context) (ids []string, err error) {
	places, err := s.children(ctx)
	for _, p := range places {
		ids = append(ids, p.id)
	}
	return ids, err
}

func (s *nodeStore) Candidates(ctx context.Context) ([]election.Candidate, error) {
	places, err := s.children(ctx)
	if err != nil {
		return nil, err
	}
	answer := make(chan []election.Candidate, 1)
	err = s.do(ctx, func(c *zk.Conn) error {
		var all []election.Candidate
		for _, p := range places {
			data, _, err := c.Get(s.path(p.node))
			if err != nil && !errors.Is(err, zk.ErrNoNode) { // else it has left
				return err
			}
			if candidate, ok := backend.ParseCandidate(data); ok {
				all = append(all, candidate)
			}
		}
		answer <- all
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

// Create makes the election's node and the nodes above it.
func (s *nodeStore) Create(ctx context.Context) error {
	acl, state := s.conn.cfg.ACL, backend.State{ID: rand.Text()}
	return s.do(ctx, func(c *zk.Conn) error {
		for i, r := range s.base {
			if r != '/' || i == 0 {
				continue
			}
			if err := createParent(c, s.base[:i], acl); err != nil {
				return err
			}
		}
		_, err := c.Multi(&zk.CreateRequest{Path: s.base, Data: backend.Encode(state), Acl: acl},
			&zk.CreateRequest{Path: s.identity(state.ID), Acl: acl})
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	})
}

// createParent creates a node that elections are below. It is no error if the node exists where
// nothing may be created: ZooKeeper says that first.
func createParent(c *zk.Conn, path string, acl []zk.ACL) error {
	there, _, err := c.Exists(path)
	if err != nil || there {
		return err
	}
	if _, err = c.Create(path, nil, 0, acl); errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Fit looks for nodes of something else. Then it sends what a candidate may have to do, with a
// condition that never holds: ZooKeeper looks at the rights of each operation in turn.
func (s *nodeStore) Fit(ctx context.Context, c election.Candidate) error {
	return s.do(ctx, func(zc *zk.Conn) error {
		if err := s.checkChildren(zc); err != nil {
			return err
		}
		probe := s.path("_p_" + c.ID)
		_, err := zc.Multi(&zk.SetDataRequest{Path: s.base, Version: -1},
			&zk.CreateRequest{Path: probe, Acl: s.conn.cfg.ACL},
			&zk.DeleteRequest{Path: probe, Version: -1},
			&zk.CheckVersionRequest{Path: s.base, Version: math.MaxInt32})
		if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
}

// checkChildren returns an error if the election's node holds children that are not an election's.
func (s *nodeStore) checkChildren(c *zk.Conn) error {
	children, _, err := c.Children(s.base)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	for _, child := range children {
		if child != leaderNode && !strings.HasPrefix(child, "_e_") &&
			!candidatePattern.MatchString(child) {
			return s.foreign("holds " + child + ", which is not an election's")
		}
	}
	return err
}

func (s *nodeStore) Commit(ctx context.Context, c backend.Change) (token uint64, err error) {
	ops := s.ops(c)
	if len(ops) == 0 {
		return 0, nil // there is no election, and nothing of the candidate's
	}
	answer := make(chan uint64, 1)
	err = s.do(ctx, func(zc *zk.Conn) error {
		answers, err := zc.Multi(ops...)
		if err != nil {
			return changed(err)
		}
		token := uint64(0)
		for i, op := range ops {
			switch create, ok := op.(*zk.CreateRequest); {
			case ok && create.Flags&zk.FlagSequence != 0:
				s.made(c.Self.ID, strings.TrimPrefix(answers[i].String, s.base+"/"))
			case answers[i].Stat != nil && c.State != nil:
				token = uint64(answers[i].Stat.Mzxid)
			}
		}
		answer <- token
		return nil
	})
	if err != nil {
		return 0, err
	}
	return <-answer, nil
}

// changed maps the error of a transaction whose condition did not hold.
func changed(err error) error {
	for _, refused := range []error{zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNodeExists,
		zk.ErrNotEmpty} {
		if errors.Is(err, refused) {
			return fmt.Errorf("%w: %w", backend.ErrChanged, err)
		}
	}
	return err
}

// ops are the operations of a change. The leader's node is created in the transaction that writes
// the state. So its creation zxid is that of the state's last change.
func (s *nodeStore) ops(c backend.Change) []any {
	if c.From.Incarnation == 0 {
		return nil
	}
	version := int32(c.From.Version - 1)
	ops := []any{&zk.CheckVersionRequest{Path: s.identity(c.From.State.ID), Version: -1}}
	if c.State != nil {
		ops = append(ops, &zk.SetDataRequest{Path: s.base, Data: backend.Encode(c.State),
			Version: version})
	} else {
		ops = append(ops, &zk.CheckVersionRequest{Path: s.base, Version: version})
	}
	switch c.Leader {
	case backend.Make:
		ops = append(ops, &zk.CreateRequest{Path: s.leader(), Data: backend.Encode(c.Self),
			Acl: s.conn.cfg.ACL, Flags: zk.FlagEphemeral})
	case backend.Need:
		ops = append(ops, &zk.CheckVersionRequest{Path: s.leader(), Version: -1})
	case backend.Drop:
		ops = append(ops, &zk.DeleteRequest{Path: s.leader(), Version: -1})
	}
	switch c.Record {
	case backend.Make:
		ops = append(ops, &zk.CreateRequest{
			Path: fmt.Sprintf("%s-p%d-n", s.path("_c_"+c.Self.ID), c.Self.Priority),
			Data: backend.Encode(c.Self), Acl: s.conn.cfg.ACL,
			Flags: zk.FlagEphemeral | zk.FlagSequence})
	case backend.Need:
		ops = append(ops, &zk.CheckVersionRequest{Path: s.path(c.From.Node), Version: -1})
	case backend.Drop:
		ops = append(ops, &zk.DeleteRequest{Path: s.path(c.From.Node), Version: -1})
	}
	if c.To != "" {
		ops = append(ops, &zk.CheckVersionRequest{Path: s.path(c.From.Node), Version: -1})
	}
	return ops
}

// Remove removes node after node, each with the condition that the election is the one that was
// read: under the order to delete it nobody can join or lead.
func (s *nodeStore) Remove(ctx context.Context, r backend.Reading) error {
	return s.do(ctx, func(c *zk.Conn) error {
		if err := s.checkChildren(c); err != nil {
			return err
		}
		children, _, err := c.Children(s.base)
		if err != nil {
			return changed(err)
		}
		identity := s.identity(r.State.ID)
		for _, child := range children {
			if s.path(child) == identity {
				continue
			}
			ops := append(s.ops(backend.Change{From: r}),
				&zk.DeleteRequest{Path: s.path(child), Version: -1})
			if _, err := c.Multi(ops...); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return changed(err)
			}
		}
		_, err = c.Multi(&zk.DeleteRequest{Path: identity, Version: -1},
			&zk.DeleteRequest{Path: s.base, Version: int32(r.Version - 1)})
		return changed(err)
	})
}
