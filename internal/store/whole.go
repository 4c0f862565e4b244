package store

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"
)

// whole reads what is below prefix once more, for a list of it that was empty, by a transaction.
// Consul leaves out of a list what may not be read, and says so to a client that has a token, but
// not to those without one, nor to the anonymous one: maskResultsFilteredByACLs in its source. So
// what they may not read looks like what is not there. The transaction also reads a key below
// prefix that no rule names, and that comes back whether it exists or not: where it is missing, the
// rest may be.
//
// A look at that key after the list would not do. A long poll is answered by the rights of its
// beginning, so a token that had lost them for a moment may have them again by then. All of a
// transaction is answered by the same rights.
func (s *consul) whole(ctx context.Context, c call, prefix string) (entries []Entry, err error) {
	ops := []Op{GetOrEmpty(prefix + "_"), {api.KVTxnOp{Verb: api.KVGetTree, Key: prefix}}}
	c.timeout, c.poll = s.callTimeout, false
	err = s.do(ctx, c, func(ctx context.Context) error {
		reply, err := s.exchange(ctx, c, ops)
		if err != nil {
			return err
		}
		if len(reply.Errors) > 0 {
			return reply.refusal(c, ops)
		}
		for i, r := range *reply.Results {
			switch {
			case r.KV == nil || !strings.HasPrefix(r.KV.Key, prefix):
				return unreachable(c.String(), "the answer holds a key that was not asked for")
			case i > 0:
				entries = append(entries, entryOf(r.KV))
			case r.KV.Key != ops[0].Key():
				return leftOut(c)
			}
		}
		if len(*reply.Results) == 0 {
			return leftOut(c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries, nil
}

// leftOut is the error for an answer that access rules have made shorter.
func leftOut(c call) error {
	return &callError{kind: ErrDenied, op: c.String(),
		text: "access rules left keys out of the answer; the token, or without one the anonymous " +
			"one, needs " + c.need}
}

// namesOf are the names that a list of keys has of entries.
func namesOf(entries []Entry, prefix, separator string) (names []string) {
	for _, e := range entries {
		name := e.Key
		if i := strings.Index(name[len(prefix):], separator); separator != "" && i >= 0 {
			name = name[:len(prefix)+i+len(separator)]
		}
		names = append(names, name)
	}
	return slices.Compact(names)
}
