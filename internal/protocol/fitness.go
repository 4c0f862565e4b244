package protocol

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coordd/coordd/internal/store"
)

// right is one rule of docs/acl.md for a member, and operations that need it.
type right struct {
	rule string
	ops  []store.Op
}

// noIndex is the ModifyIndex of no key: an operation that has it for a condition is never applied.
// Consul looks whether the token may do an operation before it looks at any condition.
const noIndex = 1 << 62

// rights are what a member needs of the key-value store. Every member may lead, so each needs what
// the leader writes.
func (k Keys) rights(member string) []right {
	rule := func(kind, path, policy string, keys ...string) right {
		r := right{rule: fmt.Sprintf("%s %q { policy = %q }", kind, k.root+path, policy)}
		for _, key := range keys {
			if policy == "write" {
				r.ops = append(r.ops, store.CAS(key, nil, 0, noIndex))
			} else {
				r.ops = append(r.ops, store.CheckIndex(key, noIndex))
			}
		}
		return r
	}
	return []right{
		rule("key_prefix", "", "write", k.Member(member), k.Ack(member), k.AssignmentsOf(member),
			k.State(member), k.Leader(), k.Term(), k.LeaderState(), k.Event(0),
			k.Quarantine(member), k.JoinSequence(member)),
		rule("key_prefix", "workload/", "read", k.WorkItem(member)),
		rule("key", "workload/", "write", k.Workload()),
		rule("key_prefix", "control/", "read", k.Freeze()),
		rule("key", "control/", "write", k.Control()),
	}
}

// Fitness tells whether the token may do what a member does, also while it leads. It changes
// nothing. [store.ErrDenied]: the text names each rule of docs/acl.md that is missing. All else says
// nothing of the token.
func (s *Store) Fitness(ctx context.Context, member string) error {
	var all []store.Op
	rights := s.keys.rights(member)
	for _, r := range rights {
		all = append(all, r.ops...)
	}
	if denied, err := s.denied(ctx, all); err != nil {
		return err
	} else if denied {
		var missing []string
		for _, r := range rights {
			if denied, err := s.denied(ctx, r.ops); err != nil {
				return err
			} else if denied {
				missing = append(missing, r.rule)
			}
		}
		return fmt.Errorf("fitness: %w: the token lacks %s (docs/acl.md)", store.ErrDenied,
			strings.Join(missing, ", "))
	}
	return nil
}

// denied tells whether the token may not do one of ops, none of which is ever applied.
func (s *Store) denied(ctx context.Context, ops []store.Op) (bool, error) {
	_, err := s.Txn(ctx, ops...)
	switch {
	case store.LacksRights(err):
		return true, nil
	case err == nil, errors.Is(err, store.ErrRefused):
		return false, nil
	}
	return false, err
}
