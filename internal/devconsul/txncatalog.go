package devconsul

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// catalogVerb is what a transaction does with a node, a service or a check.
type catalogVerb string

func (v catalogVerb) isWrite() bool { return v != "get" }

// deletes tells whether the verb takes something out of the catalog.
func (v catalogVerb) deletes() bool { return v == "delete" || v == "delete-cas" }

// check refuses a verb that there is not. what is the kind of the operation.
func (v catalogVerb) check(what string) error {
	switch v {
	case "get", "set", "cas", "delete", "delete-cas":
		return nil
	}
	return fmt.Errorf("unknown %s operation: %s", what, v)
}

// stale tells whether a condition on the index fails. now is the index of what there is; 0: there
// is nothing. A cas with index 0 asks that there be nothing.
func (v catalogVerb) stale(asked, now uint64) bool {
	switch v {
	case "cas":
		return asked != now
	case "delete-cas":
		return now == 0 || asked != now
	}
	return false
}

// act is the part of a transaction's operation that nodes, services and checks share. now is the
// index of what there is; 0: there is nothing. name is its name in errors. It returns false when
// the operation is over: what was read does not exist, the index is stale, or it was deleted.
func (v catalogVerb) act(w *writeTxn, node, name string, asked, now uint64, set func() error,
	remove func()) (stands bool, err error) {
	switch {
	case v == "get":
		if now == 0 {
			return false, fmt.Errorf("%s doesn't exist", name)
		}
		return true, nil
	case v.stale(asked, now):
		did := "set"
		if v.deletes() {
			did = "delete"
		}
		err = fmt.Errorf("failed to %s %s, index is stale", did, name)
	case !v.deletes():
		err = set()
	default:
		remove()
	}
	verb := "register"
	if v.deletes() {
		verb = "deregister"
		w.deregistered = append(w.deregistered, node)
	}
	w.log(CommitOp{Verb: verb, Key: node}, err == nil, err)
	return err == nil && !v.deletes(), err
}

// nodeOp is an operation on a node.
type nodeOp struct {
	catalogVerb
	node  node
	index uint64 // what cas and delete-cas compare with
}

func newNodeOp(op *api.NodeTxnOp, datacenter string) nodeOp {
	n := &op.Node
	if n.Datacenter == "" {
		n.Datacenter = datacenter
	}
	return nodeOp{catalogVerb(op.Verb), node{ID: n.ID, Node: n.Node, Address: n.Address,
		Datacenter: n.Datacenter, TaggedAddresses: n.TaggedAddresses, Meta: n.Meta}, n.ModifyIndex}
}

func (op nodeOp) preCheck(*Server, time.Time) error {
	if err := op.check("node"); err != nil || !op.isWrite() {
		return err
	}
	return checkNode(op.node.Node, op.node.ID)
}

func (op nodeOp) run(w *writeTxn) ([]txnResult, error) {
	byName := func() *node {
		if v, ok := w.root(treeNodes).Get(treeKey(fold(op.node.Node))); ok {
			return v.(*node)
		}
		return nil
	}
	// A node that is read may be named by the beginning of its ID.
	find := func() *node {
		if op.node.ID == "" {
			return byName()
		}
		for _, n := range under(w.root(treeNodes), nil, func(n *node) bool {
			return strings.HasPrefix(n.ID, op.node.ID)
		}) {
			return n
		}
		return nil
	}
	found := byName()
	if !op.isWrite() {
		found = find()
	}
	var now uint64
	if found != nil {
		now = found.ModifyIndex
	}
	stands, err := op.act(w, op.node.Node, fmt.Sprintf("node %q", op.node.Node), op.index, now,
		func() error { w.ensureNode(op.node); return nil },
		func() { w.deleteNode(op.node.Node) })
	if !stands {
		return nil, err
	}
	return []txnResult{{Node: find()}}, nil
}

// serviceOp is an operation on a service.
type serviceOp struct {
	catalogVerb
	in      *api.AgentService
	service service
	index   uint64
}

func newServiceOp(op *api.ServiceTxnOp) serviceOp {
	return serviceOp{catalogVerb(op.Verb), &op.Service, serviceOf(op.Node, &op.Service),
		op.Service.ModifyIndex}
}

func (op serviceOp) preCheck(*Server, time.Time) error {
	if err := op.check("service"); err != nil || !op.isWrite() {
		return err
	}
	return checkService(op.in)
}

func (op serviceOp) run(w *writeTxn) ([]txnResult, error) {
	s := &op.service
	find := func() *service {
		if v, ok := w.root(treeServices).Get(treeKey(fold(s.Node), fold(s.ID))); ok {
			return v.(*service)
		}
		return nil
	}
	var now uint64
	if found := find(); found != nil {
		now = found.ModifyIndex
	}
	stands, err := op.act(w, s.Node, fmt.Sprintf("service %q on node %q", s.ID, s.Node), op.index,
		now, func() error { return w.ensureService(*s) }, func() { w.deleteService(s.Node, s.ID) })
	if !stands {
		return nil, err
	}
	found := find()
	view := found.view()
	view.Tags = found.Tags
	return []txnResult{{Service: view}}, nil
}

// checkOp is an operation on a check.
type checkOp struct {
	catalogVerb
	entry check
	index uint64
}

func newCheckOp(op *api.CheckTxnOp) checkOp {
	c := checkOf(&op.Check)
	if c.CheckID == "" && op.Verb != api.CheckGet {
		c.CheckID = c.Name
	}
	// Consul leaves these out of a transaction.
	c.Definition.UDP, c.Definition.SessionName = "", ""
	c.ExposedPort = op.Check.ExposedPort
	return checkOp{catalogVerb(op.Verb), c, op.Check.ModifyIndex}
}

func (op checkOp) preCheck(*Server, time.Time) error { return op.check("check") }

func (op checkOp) run(w *writeTxn) ([]txnResult, error) {
	c := &op.entry
	find := func() *check {
		if v, ok := w.root(treeChecks).Get(treeKey(fold(c.Node), fold(c.CheckID))); ok {
			return v.(*check)
		}
		return nil
	}
	var now uint64
	if found := find(); found != nil {
		now = found.ModifyIndex
	}
	stands, err := op.act(w, c.Node, fmt.Sprintf("check %q on node %q", c.CheckID, c.Node),
		op.index, now, func() error { return w.ensureCheck(*c) },
		func() { w.deleteCheck(c.Node, c.CheckID) })
	if !stands {
		return nil, err
	}
	return []txnResult{{Check: find()}}, nil
}
