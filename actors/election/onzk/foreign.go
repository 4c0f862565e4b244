package onzk

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

// checkOwn returns an error if Delete would remove nodes of something else. The Root of one
// connection may be the name of an election of another: then all elections of the first are below
// that election's node. What a stranger left among the nodes of an election and has no children is
// no such thing. Another program's node gets no order to delete it, see stateWriter.
func (b *backend) checkOwn() error {
	data, _, err := b.conn.zk.Get(b.base)
	children, _, listed := b.conn.zk.Children(b.base)
	if err = errors.Join(err, listed); err != nil {
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	}
	for _, child := range children {
		if child == identity(data) || candidatePattern.MatchString(child) {
			continue // 500 candidates are not asked about
		}
		below, err := b.childrenOf(b.path(child))
		if err != nil {
			return err
		}
		// An election may be called as a field is.
		if areElections(below) || len(below) > 0 && !isField(child) {
			return b.foreign(b.path(child))
		}
	}
	return nil
}

// isField tells whether a child of an election's node has that name, beside its candidates and its
// identity.
func isField(child string) bool {
	return child == leaderNode || child == termNode || child == yieldNode
}

// foreign is the error of a request that would write or remove what is not this election's.
func (b *backend) foreign(path string) error {
	return fmt.Errorf("%w: %s is no node of this election: give the root that the election is "+
		"below, or remove that node by hand", election.ErrInvalid, path)
}

// areElections tells whether these children of a node show that it is an election's.
func areElections(children []string) bool {
	return slices.ContainsFunc(children, func(child string) bool {
		return child == termNode || strings.HasPrefix(child, identityPrefix) || isCandidate(child)
	})
}

// childrenOf returns the children of a node; none if there is no such node. Whoever made it may
// keep them to himself, but not that there are none.
func (b *backend) childrenOf(path string) ([]string, error) {
	children, _, err := b.conn.zk.Children(path)
	if errors.Is(err, zk.ErrNoAuth) {
		exists, stat, failed := b.conn.zk.Exists(path)
		if failed != nil {
			return nil, failed
		}
		if !exists || stat.NumChildren == 0 {
			return nil, nil
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return children, err
}

// checkField returns an error if a node that this election is about to write is that of another
// election, whose Root is this election's node.
func (b *backend) checkField(node string) error {
	children, err := b.childrenOf(b.path(node))
	if err != nil || !areElections(children) {
		return err
	}
	return b.foreign(b.path(node))
}

// checkPlace returns an error if the Root is an election, and this election's node is or would be
// one of those that it writes and removes.
func (b *backend) checkPlace() error {
	if !isField(b.name) {
		return nil
	}
	root := b.conn.cfg.Root
	data, _, err := b.conn.zk.Get(root)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) ||
		err == nil && identity(data) == "" {
		return nil
	}
	if err != nil {
		return err
	}
	there, _, err := b.conn.zk.Exists(root + "/" + identity(data))
	if err == nil && there {
		err = fmt.Errorf("%w: %s is an election, and %s belongs to it: use another name or "+
			"another root", election.ErrInvalid, root, b.base)
	}
	return err
}

// checkElection returns an error if the election's node, which has that data, is something else's:
// who joins it, or gives it an order, would write and remove what is there. An election has a
// record in its node, or an identity, a term or a candidate below. One whose node was made by hand,
// and that nobody has stood for, may have none, but nothing else either.
func (b *backend) checkElection(data []byte) error {
	if isRecord(data) {
		return nil
	}
	children, err := b.childrenOf(b.base)
	if err != nil || areElections(children) {
		return err
	}
	for _, child := range children {
		if !strings.HasPrefix(child, probePrefix) {
			return b.foreign(b.path(child))
		}
	}
	if len(data) > 0 {
		err = fmt.Errorf("%w: %s is no election: give the root that the election is below",
			election.ErrInvalid, b.base)
	}
	return err
}
