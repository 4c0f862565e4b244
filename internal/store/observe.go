package store

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/messages"
)

// do makes a call: all of them come this way.
func (s *Store) do(ctx context.Context, c call, f func(context.Context) error) error {
	if s.observer == nil {
		return c.do(ctx, f)
	}
	return s.observed(ctx, c, f)
}

// observed makes a call and tells the observer how it went.
func (s *Store) observed(ctx context.Context, c call, f func(context.Context) error) (err error) {
	kind := c.measured()
	if kind == messages.KindPoll {
		s.observer.Observe(messages.PollOpened{})
	}
	begin, result := time.Now(), "failed"
	defer func() {
		s.observer.Observe(messages.CallEnded{Kind: kind, Result: result, Took: time.Since(begin)})
	}()
	err = c.do(ctx, f)
	if result = resultOf(err); errors.Is(context.Cause(ctx), errQuiet) {
		result = "canceled"
	}
	return err
}

// kinds are those of calls that have one name each. Names of transactions are their callers'.
var kinds = map[string]string{
	"get": "get", "list": "list", "list keys": "list_keys", "index": "index", "put": "put",
	"session create": "session_create", "session renew": "session_renew",
	"session info": "session_info", "session destroy": "session_destroy",
	"register instance": "register", "deregister instance": "deregister",
	"report check":                          "check_report",
	"a node for sessions in the datacenter": "find_node",
	"read txn":                              "read_txn",
}

// measured is the kind of a call for those who count. There are not many.
func (c call) measured() string {
	if c.poll {
		return messages.KindPoll
	}
	if kind, ok := kinds[c.op]; ok {
		return kind
	}
	return "txn"
}

// resultOf is the result of a call for those who count.
func resultOf(err error) string {
	if err == nil {
		return messages.ResultOK
	}
	if e, ok := errors.AsType[*callError](err); ok &&
		errors.Is(e.ended, context.Canceled) {
		return "canceled"
	}
	if errors.Is(err, ErrNoAnswer) {
		return "no_answer"
	}
	switch kindOf(err) {
	case ErrSessionGone:
		return "session_gone"
	case ErrRefused:
		return "refused"
	case ErrDenied:
		return "denied"
	case ErrUnreachable:
		return "unreachable"
	case ErrInvalid:
		return "invalid"
	case ErrNotFound:
		return "not_found"
	}
	return "failed"
}
