package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/facts"
)

// do makes a call: all of them come this way.
func (s *consul) do(ctx context.Context, c call, f func(context.Context) error) error {
	if s.observer == nil {
		return c.do(ctx, f)
	}
	return s.observed(ctx, c, f)
}

// observed makes a call and tells the observer how it went.
func (s *consul) observed(ctx context.Context, c call, f func(context.Context) error) (err error) {
	kind := c.measured()
	if kind == facts.KindPoll {
		s.observer.Observe(facts.PollOpened{})
	}
	begin, result := time.Now(), "failed"
	defer func() {
		s.observer.Observe(facts.CallEnded{Kind: kind, Result: result, Took: time.Since(begin)})
	}()
	err = c.do(ctx, f)
	result = resultOf(err)
	return err
}

// measured is the kind of a call for those who count. There are not many.
func (c call) measured() string {
	if c.poll {
		return facts.KindPoll
	}
	return strings.ReplaceAll(c.op, " ", "_")
}

// resultOf is the result of a call for those who count.
func resultOf(err error) string {
	if err == nil {
		return facts.ResultOK
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
