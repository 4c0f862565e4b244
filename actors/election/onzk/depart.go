package onzk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election/internal/backend"
	"github.com/go-zookeeper/zk"
)

// Depart resigns for a candidate whose process has died. session is the one of its Contact. Depart
// gives the leadership up if that session has it, and deletes the session's candidates. So the next
// candidate leads at once. All duties must have ended. What else belongs to the session is deleted
// when it expires. cfg is as for Connect. Depart tries until ctx ends, also while no server's name
// can be resolved. It tells whether the session led. The error is election.ErrInvalid, or why
// ZooKeeper could not do it.
func Depart(ctx context.Context, cfg Config, name, session string) (led bool, err error) {
	c, err := Connect(cfg)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := checkName(name); err != nil {
		return false, err
	}
	s := newNodeStore(c, name)
	for {
		gave, err := s.depart(ctx, session)
		switch led = led || gave; {
		case err == nil:
			return led, nil
		case ctx.Err() != nil:
			return led, fmt.Errorf("departure from %s: %w", name, ctx.Err())
		case !s.Passing(err) && !errors.Is(err, backend.ErrChanged):
			return led, fmt.Errorf("departure from %s: %w", name, err)
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

// depart makes one attempt. led: the session had the leadership, and it was given up, though the
// answer may be lost. A take of one of the session's candidates may be under way: without the
// candidate's node it is refused, and if it has won already this is.
func (s *nodeStore) depart(ctx context.Context, session string) (led bool, err error) {
	r, err := s.Read(ctx, "")
	if err != nil || r.Incarnation == 0 {
		return false, err
	}
	change := backend.Change{From: r}
	if led = r.Session == session; led {
		change = backend.GiveUp(r)
	}
	ops := s.ops(change)
	places, err := s.children(ctx)
	if err != nil {
		return false, err
	}
	err = s.do(ctx, func(c *zk.Conn) error {
		for _, p := range places {
			there, stat, err := c.Exists(s.path(p.node))
			if err != nil {
				return err
			}
			if there && sessionName(stat.EphemeralOwner) == session {
				ops = append(ops, &zk.DeleteRequest{Path: s.path(p.node), Version: -1})
			}
		}
		_, err := c.Multi(ops...)
		return changed(err)
	})
	return led && (err == nil || errors.Is(err, zk.ErrConnectionClosed)), err
}
