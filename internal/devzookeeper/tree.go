package devzookeeper

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// The errors of ZooKeeper's protocol.
const (
	errOK             = 0
	errInconsistency  = -2 // of what stands behind the operation that failed
	errUnimplemented  = -6
	errNoNode         = -101
	errNoAuth         = -102
	errBadVersion     = -103
	errEphemerals     = -108
	errNodeExists     = -110
	errNotEmpty       = -111
	errSessionExpired = -112
	errSessionMoved   = -118
)

// node is one of a tree. It never changes: what changes it puts another in its place.
type node struct {
	data    []byte
	stat    zk.Stat
	created int32 // children so far: the next sequence
	kept    bool  // see Keep
}

// tree is all nodes, as one server has them.
type tree struct {
	nodes    map[string]*node
	children map[string]map[string]bool
}

func newTree() *tree {
	t := &tree{nodes: map[string]*node{}, children: map[string]map[string]bool{}}
	t.put("/", &node{})
	t.put("/zookeeper", &node{})
	return t
}

func (t *tree) copy() *tree {
	c := &tree{nodes: maps.Clone(t.nodes), children: map[string]map[string]bool{}}
	for path, names := range t.children {
		c.children[path] = maps.Clone(names)
	}
	return c
}

func split(path string) (parent, name string) {
	at := strings.LastIndex(path, "/")
	if at == 0 {
		return "/", path[1:]
	}
	return path[:at], path[at+1:]
}

// put puts a node in its place; nil: it takes away what is there.
func (t *tree) put(path string, n *node) {
	parent, name := split(path)
	if n == nil {
		delete(t.nodes, path)
		delete(t.children[parent], name)
		return
	}
	t.nodes[path] = n
	if name == "" {
		return
	}
	if t.children[parent] == nil {
		t.children[parent] = map[string]bool{}
	}
	t.children[parent][name] = true
}

func (t *tree) stat(path string) zk.Stat {
	n := t.nodes[path]
	if n == nil {
		return zk.Stat{}
	}
	st := n.stat
	st.NumChildren, st.DataLength = int32(len(t.children[path])), int32(len(n.data))
	st.Cversion = 2*n.created - st.NumChildren
	return st
}

// transaction is what was done at one moment.
type transaction struct {
	zxid    int64
	changes []change
	events  []event
	ended   int64 // the session that it ended; 0: none
}

type change struct {
	path    string
	was, is *node // nil: none
}

// event is what a watch is told.
type event struct {
	kind zk.EventType
	path string
}

// draft is a transaction as it is made, in place.
type draft struct {
	transaction
	*tree
	session int64
}

func (s *Server) begin(session int64) *draft {
	s.zxid++
	return &draft{transaction: transaction{zxid: s.zxid}, tree: s.tree, session: session}
}

// change puts a changed copy of a node in its place.
func (d *draft) change(path string, is *node) {
	d.changes = append(d.changes, change{path, d.nodes[path], is})
	d.put(path, is)
}

// undo takes back what was done so far.
func (d *draft) undo() {
	for _, c := range slices.Backward(d.changes) {
		d.put(c.path, c.was)
	}
	d.changes, d.events = nil, nil
}

func (d *draft) tell(kind zk.EventType, path string) {
	d.events = append(d.events, event{kind, path})
}

func (d *draft) create(r *zk.CreateRequest) (path string, code int32) {
	up, _ := split(r.Path)
	parent := d.nodes[up]
	switch {
	case parent == nil:
		return "", errNoNode
	case parent.kept: // before all else, as in ZooKeeper's PrepRequestProcessor
		return "", errNoAuth
	case parent.stat.EphemeralOwner != 0:
		return "", errEphemerals
	}
	path = r.Path
	if r.Flags&zk.FlagSequence != 0 {
		path = fmt.Sprintf("%s%010d", path, parent.created)
	}
	if d.nodes[path] != nil {
		return "", errNodeExists
	}
	ms := time.Now().UnixMilli()
	n := &node{data: r.Data, stat: zk.Stat{Czxid: d.zxid, Mzxid: d.zxid, Pzxid: d.zxid, Ctime: ms,
		Mtime: ms}}
	if r.Flags&zk.FlagEphemeral != 0 {
		n.stat.EphemeralOwner = d.session
	}
	above := *parent
	above.created++
	above.stat.Pzxid = d.zxid
	d.change(up, &above)
	d.change(path, n)
	d.tell(zk.EventNodeCreated, path)
	return path, errOK
}

func (d *draft) delete(path string, version int32) int32 {
	if code := d.check(path, version); code != errOK {
		return code
	}
	if len(d.children[path]) > 0 {
		return errNotEmpty
	}
	up, _ := split(path)
	above := *d.nodes[up]
	above.stat.Pzxid = d.zxid
	d.change(up, &above)
	d.change(path, nil)
	d.tell(zk.EventNodeDeleted, path)
	return errOK
}

func (d *draft) set(path string, data []byte, version int32) int32 {
	if code := d.check(path, version); code != errOK {
		return code
	}
	n := *d.nodes[path]
	n.data = data
	n.stat.Version++
	n.stat.Mzxid, n.stat.Mtime = d.zxid, time.Now().UnixMilli()
	d.change(path, &n)
	d.tell(zk.EventNodeDataChanged, path)
	return errOK
}

func (d *draft) check(path string, version int32) int32 {
	n := d.nodes[path]
	switch {
	case n == nil:
		return errNoNode
	case version >= 0 && version != n.stat.Version:
		return errBadVersion
	}
	return errOK
}

// end deletes what belongs to a session.
func (d *draft) end(session int64) {
	for path, n := range maps.Clone(d.nodes) {
		if n.stat.EphemeralOwner == session {
			d.delete(path, -1)
		}
	}
	d.ended = session
}
