package devconsul

import (
	"encoding/json"
	"errors"
	"reflect"

	iradix "github.com/hashicorp/go-immutable-radix"
)

const (
	statusPassing  = "passing"
	statusWarning  = "warning"
	statusCritical = "critical"
)

func validStatus(s string) bool {
	return s == statusPassing || s == statusWarning || s == statusCritical
}

// stamps are the indexes of a record's first and last change.
type stamps struct{ CreateIndex, ModifyIndex uint64 }

func (s *stamps) stamp() *stamps { return s }

// put stores a record of the catalog, unless it is there as it is. It tells whether it was stored.
func put[T any, P interface {
	*T
	stamp() *stamps
}](w *writeTxn, t tree, key []byte, now T) bool {
	*P(&now).stamp() = stamps{w.idx, w.idx}
	if v, ok := w.root(t).Get(key); ok {
		old, same := P(v.(*T)), now
		*P(&same).stamp() = *old.stamp()
		if reflect.DeepEqual(*old, same) {
			return false
		}
		P(&now).stamp().CreateIndex = old.stamp().CreateIndex
	}
	w.open(t).Insert(key, &now)
	return true
}

// node, service and check are the records of the catalog. Published ones are not changed.
type node struct {
	ID              string
	Node            string
	Address         string
	Datacenter      string
	TaggedAddresses map[string]string
	Meta            map[string]string
	stamps
}

type weights struct{ Passing, Warning int }

type service struct {
	Node              string
	ID                string
	Service           string
	Tags              []string
	Address           string
	Meta              map[string]string
	Port              int
	Weights           weights
	EnableTagOverride bool
	stamps
}

type check struct {
	Node        string
	CheckID     string
	Name        string
	Status      string
	Notes       string
	Output      string
	ServiceID   string
	ServiceName string
	ServiceTags []string
	Type        string
	Interval    string
	Timeout     string
	ExposedPort int
	Definition  json.RawMessage
	stamps
}

var errMissingService = errors.New("Missing service registration")

func (w *writeTxn) ensureNode(n node) {
	if put(w, treeNodes, treeKey(fold(n.Node)), n) {
		w.state.idx.Nodes = w.idx
		w.touchServicesOf(n.Node)
	}
}

func (w *writeTxn) ensureService(s service) error {
	if _, ok := w.root(treeNodes).Get(treeKey(fold(s.Node))); !ok {
		return errMissingNode
	}
	if put(w, treeServices, treeKey(fold(s.Node), fold(s.ID)), s) {
		w.state.idx.Services = w.idx
		w.touchService(s.Service)
	}
	return nil
}

// ensureCheck stores a check. One that is critical ends the sessions bound to it.
func (w *writeTxn) ensureCheck(c check) error {
	if _, ok := w.root(treeNodes).Get(treeKey(fold(c.Node))); !ok {
		return errMissingNode
	}
	if c.ServiceID != "" {
		v, ok := w.root(treeServices).Get(treeKey(fold(c.Node), fold(c.ServiceID)))
		if !ok {
			return errMissingService
		}
		c.ServiceName, c.ServiceTags = v.(*service).Service, v.(*service).Tags
	}
	c.ServiceTags = orEmpty(c.ServiceTags)
	if c.Status == statusCritical {
		w.endSessionsOfCheck(c.Node, c.CheckID)
	}
	if put(w, treeChecks, treeKey(fold(c.Node), fold(c.CheckID)), c) {
		w.state.idx.Checks = w.idx
		w.touchCheck(&c)
	}
	return nil
}

func (w *writeTxn) touchService(name string) {
	w.open(treeSvcIndex).Insert(treeKey(fold(name)), w.idx)
}

func (w *writeTxn) touchServicesOf(nodeName string) {
	for _, s := range servicesOf(w.root(treeServices), nodeName) {
		w.touchService(s.Service)
	}
}

// touchCheck raises the index of the service that a check belongs to; of all services of the node
// for a check of the node.
func (w *writeTxn) touchCheck(c *check) {
	if c.ServiceID != "" {
		w.touchService(c.ServiceName)
	} else {
		w.touchServicesOf(c.Node)
	}
}

func (w *writeTxn) deleteCheck(nodeName, id string) {
	v, ok := w.open(treeChecks).Delete(treeKey(fold(nodeName), fold(id)))
	if !ok {
		return
	}
	w.state.idx.Checks = w.idx
	w.touchCheck(v.(*check))
	w.endSessionsOfCheck(nodeName, id)
}

func (w *writeTxn) deleteService(nodeName, id string) {
	for _, c := range checksOf(w.root(treeChecks), nodeName) {
		if fold(c.ServiceID) == fold(id) {
			w.deleteCheck(nodeName, c.CheckID)
		}
	}
	v, ok := w.open(treeServices).Delete(treeKey(fold(nodeName), fold(id)))
	if !ok {
		return
	}
	w.state.idx.Services = w.idx
	name := v.(*service).Service
	for _, s := range servicesNamed(w.root(treeServices), name) {
		w.touchService(s.Service)
		return
	}
	w.open(treeSvcIndex).Delete(treeKey(fold(name)))
	w.state.idx.LastExtinction = w.idx
}

// deleteNode removes a node with all it has; its sessions end.
func (w *writeTxn) deleteNode(name string) {
	for _, s := range servicesOf(w.root(treeServices), name) {
		w.deleteService(name, s.ID)
	}
	for _, c := range checksOf(w.root(treeChecks), name) {
		w.deleteCheck(name, c.CheckID)
	}
	if _, ok := w.open(treeNodes).Delete(treeKey(fold(name))); !ok {
		return
	}
	w.state.idx.Nodes = w.idx
	w.endSessionsOfNode(name)
}

func under[T any](n *iradix.Node, prefix []byte, keep func(*T) bool) []*T {
	found := []*T{}
	n.WalkPrefix(prefix, func(_ []byte, v any) bool {
		if t := v.(*T); keep == nil || keep(t) {
			found = append(found, t)
		}
		return false
	})
	return found
}

func servicesOf(n *iradix.Node, nodeName string) []*service {
	return under[service](n, treeKey(fold(nodeName)), nil)
}

func servicesNamed(n *iradix.Node, name string) []*service {
	return under(n, nil, func(s *service) bool { return fold(s.Service) == fold(name) })
}

func checksOf(n *iradix.Node, nodeName string) []*check {
	return under[check](n, treeKey(fold(nodeName)), nil)
}

// serviceIndex is the index that queries of a service answer with.
func (st *state) serviceIndex(name string, exists, withChecks bool) uint64 {
	if !exists && st.idx.LastExtinction != 0 {
		return st.idx.LastExtinction
	}
	if v, ok := st.trees[treeSvcIndex].Get(treeKey(fold(name))); ok {
		return v.(uint64)
	}
	idx := max(st.idx.Nodes, st.idx.Services)
	if withChecks {
		idx = max(idx, st.idx.Checks)
	}
	return idx
}

// watchAll wakes a query for every change of a tree.
func watchAll(ws *watchSet, ts ...*iradix.Tree) {
	for _, t := range ts {
		ws.add(t.Root().Iterator().SeekPrefixWatch(nil))
	}
}
