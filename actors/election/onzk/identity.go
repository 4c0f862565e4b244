package onzk

import (
	"crypto/rand"
	"errors"

	"github.com/go-zookeeper/zk"
)

// checkIdentity is the condition that the election is the one whose data that was.
func (b *backend) checkIdentity(data []byte) []any {
	if node := identity(data); node != "" {
		return []any{&zk.CheckVersionRequest{Path: b.path(node), Version: -1}}
	}
	return nil
}

// probePrefix begins the name of a node that ensureIdentity makes and removes again.
const probePrefix = "_p_"

// ensureIdentity creates the identity of an election again if a stranger has removed it. Without it
// every order would fail. data and stat are those of the election's node.
func (b *backend) ensureIdentity(data []byte, stat *zk.Stat) error {
	node := identity(data)
	if node == "" {
		return nil
	}
	if there, _, err := b.conn.zk.Exists(b.path(node)); there || err != nil {
		return err
	}
	if err := b.checkElection(data); err != nil {
		return err
	}
	return b.createIdentity(data, stat, &zk.CreateRequest{Path: b.path(node),
		Acl: b.conn.cfg.ACL})
}

// identify gives an election an identity if it has none, as one whose node was made by hand, or by
// an older version. done: the election's node is to be read again. What is something else's gets
// none, and neither does a node whose own nodes are elections: those would be refused then.
func (b *backend) identify(data []byte, stat *zk.Stat) (done bool, err error) {
	if identity(data) != "" {
		return false, nil
	}
	if err := b.checkElection(data); err != nil {
		return false, err
	}
	for _, node := range []string{leaderNode, termNode, yieldNode} {
		if err := b.checkField(node); err != nil {
			return false, err
		}
	}
	named := withID(data, rand.Text())
	return true, b.createIdentity(data, stat,
		&zk.SetDataRequest{Path: b.base, Data: named, Version: stat.Version},
		&zk.CreateRequest{Path: b.path(identity(named)), Acl: b.conn.cfg.ACL})
}

// createIdentity does what creates an identity, in the election whose node had that data and stat.
//
// It must not be done in the next election of the name, where each late order of this one would
// find the identity. The versions of the two elections' nodes may be the same. So this first
// creates a probe, a child with a name that is never used twice, and then reads which election has
// it: an election that is deleted takes its children with it. The identity is created by a
// transaction that removes the probe, and that fails if it has gone.
func (b *backend) createIdentity(data []byte, stat *zk.Stat, ops ...any) error {
	node := identity(data)
	if now, err := b.stillNames(node, stat.Czxid, 0); !now || err != nil {
		return err
	}
	probe := b.path(probePrefix + rand.Text())
	_, err := b.conn.zk.Create(probe, nil, zk.FlagEphemeral, b.conn.cfg.ACL)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	there, made, err := b.conn.zk.Exists(probe)
	if !there || err != nil {
		return err
	}
	same, err := b.stillNames(node, stat.Czxid, made.Czxid)
	if err != nil {
		return err
	}
	if same {
		_, err = b.conn.zk.Multi(append([]any{&zk.DeleteRequest{Path: probe, Version: -1}},
			ops...)...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			_ = b.conn.zk.Delete(probe, -1)
			return err
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNodeExists) &&
			!errors.Is(err, zk.ErrBadVersion):
			return err
		}
	}
	if err := b.conn.zk.Delete(probe, -1); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// stillNames tells whether the election's node was made at the zxid incarnation and its data names
// that identity, as of a moment when the child made at the zxid child was there; 0: of any moment.
func (b *backend) stillNames(node string, incarnation, child int64) (bool, error) {
	data, stat, err := b.conn.zk.Get(b.base)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil && stat.Czxid == incarnation && stat.Pzxid >= child &&
		identity(data) == node, err
}
