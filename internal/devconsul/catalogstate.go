package devconsul

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

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

// node, service and check are the records of the catalog. Published ones are not changed.
type node struct {
	ID              string
	Node            string
	Address         string
	Datacenter      string
	TaggedAddresses map[string]string
	Meta            map[string]string
	CreateIndex     uint64
	ModifyIndex     uint64
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
	CreateIndex       uint64
	ModifyIndex       uint64
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
	CreateIndex uint64
	ModifyIndex uint64
}

var (
	errMissingService = errors.New("Missing service registration")
)

func (w *writeTxn) ensureNode(n node) {
	key := treeKey(fold(n.Node))
	n.CreateIndex, n.ModifyIndex = w.idx, w.idx
	if v, ok := w.root(treeNodes).Get(key); ok {
		old := v.(*node)
		n.CreateIndex = old.CreateIndex
		if old.ID == n.ID && old.Address == n.Address &&
			maps.Equal(old.TaggedAddresses, n.TaggedAddresses) && maps.Equal(old.Meta, n.Meta) {
			return
		}
	}
	w.open(treeNodes).Insert(key, &n)
	w.state.idx.Nodes = w.idx
	w.touchServicesOf(n.Node)
}

func (w *writeTxn) ensureService(s service) error {
	if _, ok := w.root(treeNodes).Get(treeKey(fold(s.Node))); !ok {
		return errMissingNode
	}
	key := treeKey(fold(s.Node), fold(s.ID))
	s.CreateIndex, s.ModifyIndex = w.idx, w.idx
	if v, ok := w.root(treeServices).Get(key); ok {
		old := v.(*service)
		s.CreateIndex = old.CreateIndex
		if old.Service == s.Service && slices.Equal(old.Tags, s.Tags) && old.Address == s.Address &&
			maps.Equal(old.Meta, s.Meta) && old.Port == s.Port && old.Weights == s.Weights &&
			old.EnableTagOverride == s.EnableTagOverride {
			return nil
		}
	}
	w.open(treeServices).Insert(key, &s)
	w.state.idx.Services = w.idx
	w.touchService(s.Service)
	return nil
}

// ensureCheck stores a check. One that is critical ends the sessions bound to it.
func (w *writeTxn) ensureCheck(c check) error {
	if _, ok := w.root(treeNodes).Get(treeKey(fold(c.Node))); !ok {
		return errMissingNode
	}
	if c.Status == "" {
		c.Status = statusCritical
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
	key := treeKey(fold(c.Node), fold(c.CheckID))
	c.CreateIndex, c.ModifyIndex = w.idx, w.idx
	if v, ok := w.root(treeChecks).Get(key); ok {
		old := v.(*check)
		c.CreateIndex = old.CreateIndex
		if old.same(&c) {
			return nil
		}
	}
	w.open(treeChecks).Insert(key, &c)
	w.state.idx.Checks = w.idx
	w.touchCheck(&c)
	return nil
}

func (c *check) same(o *check) bool {
	return c.Node == o.Node && c.CheckID == o.CheckID && c.Name == o.Name && c.Status == o.Status &&
		c.Notes == o.Notes && c.Output == o.Output && c.ServiceID == o.ServiceID &&
		c.ServiceName == o.ServiceName && c.Type == o.Type &&
		slices.Equal(c.ServiceTags, o.ServiceTags)
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
	if v, ok := st.svcIndex.Get(treeKey(fold(name))); ok {
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
