package onzk

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

// checkOwn returns an error if Delete would remove nodes of something else. The Root of one
// connection may be the name of an election of another: then all elections of the first are below
// that election's node. Or the node is another program's. What a stranger left among the nodes of
// an election and has no children is no such thing.
func (b *backend) checkOwn() error {
	data, _, err := b.conn.zk.Get(b.base)
	children, _, listed := b.conn.zk.Children(b.base)
	if err = errors.Join(err, listed); err != nil {
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	}
	isElection := identity(data) != "" || slices.Contains(children, termNode)
	for _, child := range children {
		if child == identity(data) || candidatePattern.MatchString(child) {
			continue // 500 candidates are not asked about
		}
		below, _, err := b.conn.zk.Children(b.path(child))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		foreign := len(below) > 0 || !isElection
		switch child {
		case leaderNode, termNode, yieldNode: // an election may be called so
			foreign = slices.Contains(below, termNode)
		}
		if foreign {
			return fmt.Errorf("%w: %s is no node of this election: give the root that the "+
				"election is below, or remove that node by hand",
				election.ErrInvalid, b.path(child))
		}
	}
	return nil
}

// checkElection returns an error if the node holds what no election has written, and would lose it
// by an order.
func (b *backend) checkElection(data []byte) error {
	if len(data) == 0 || identity(data) != "" {
		return nil
	}
	there, _, err := b.conn.zk.Exists(b.path(termNode))
	if err == nil && !there {
		err = fmt.Errorf("%w: %s is no election: give the root that the election is below",
			election.ErrInvalid, b.base)
	}
	return err
}
