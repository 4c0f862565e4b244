package messages

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrAbandoned is returned by [Mailbox.Call] when the receiver had taken the
// request and failed before answering. Whether it took effect is not known.
var ErrAbandoned = errors.New("the actor failed while it had the request in hand")

// Mailbox carries requests with a typed answer to one receiver. The mailbox
// outlives its receiver: a request that waits while the receiver is restarted is
// taken by the next incarnation.
type Mailbox[Req, Resp any] struct {
	requests chan *Request[Req, Resp]
}

// NewMailbox returns an empty mailbox. It holds nothing itself: a call waits
// until the receiver takes it, so a request is never lost in a queue.
func NewMailbox[Req, Resp any]() *Mailbox[Req, Resp] {
	return &Mailbox[Req, Resp]{requests: make(chan *Request[Req, Resp])}
}

// Call hands req to the receiver and waits for its answer. It returns the
// context's error when the context ends first; the request may then have been
// taken, and its outcome is not known.
func (m *Mailbox[Req, Resp]) Call(ctx context.Context, req Req) (Resp, error) {
	r := &Request[Req, Resp]{Value: req, ctx: ctx, answer: make(chan answer[Resp], 1)}
	var none Resp
	select {
	case m.requests <- r:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	select {
	case a := <-r.answer:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Requests is where the receiver takes requests from, in its select loop. Each
// must be handled with [Request.Handle] or answered with [Request.Reply].
func (m *Mailbox[Req, Resp]) Requests() <-chan *Request[Req, Resp] { return m.requests }

// Request is one call on its way.
type Request[Req, Resp any] struct {
	Value    Req
	ctx      context.Context
	answer   chan answer[Resp]
	answered atomic.Bool
}

type answer[Resp any] struct {
	value Resp
	err   error
}

// Context is the caller's: it ends when nobody waits for the answer any more.
func (r *Request[Req, Resp]) Context() context.Context { return r.ctx }

// Reply answers the caller. Only the first answer counts; it never blocks.
func (r *Request[Req, Resp]) Reply(value Resp, err error) {
	if r.answered.CompareAndSwap(false, true) {
		r.answer <- answer[Resp]{value, err}
	}
}

// Handle runs f and replies with what it returns. When f panics or ends the
// goroutine the caller gets [ErrAbandoned] and the failure goes on its way.
func (r *Request[Req, Resp]) Handle(f func(ctx context.Context, req Req) (Resp, error)) {
	defer func() {
		var none Resp
		r.Reply(none, fmt.Errorf("%w (%T)", ErrAbandoned, r.Value))
	}()
	r.Reply(f(r.ctx, r.Value))
}
