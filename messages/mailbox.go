package messages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

var (
	// ErrAbandoned is returned by [Mailbox.Call] when the receiver had taken the
	// request and failed before answering. Whether it took effect is not known.
	ErrAbandoned = errors.New("the actor failed while it had the request in hand")
	// ErrCycle is returned by [Mailbox.Call] when the receiver is waiting for this very call: it,
	// or one that it called, calls back while it handles a request. Nothing was done.
	ErrCycle = errors.New("the actor that is to answer waits for this call")
)

// Mailbox carries requests with a typed answer to one receiver. The mailbox
// outlives its receiver: a request that waits while the receiver is restarted is
// taken by the next incarnation. The zero Mailbox is empty and usable.
type Mailbox[Req, Resp any] struct {
	inbox State[*Inbox[Req, Resp]] // nil: nobody has opened it yet
}

// NewMailbox returns an empty mailbox. It holds nothing itself: a call waits
// until the receiver takes it, so a request is never lost in a queue.
func NewMailbox[Req, Resp any]() *Mailbox[Req, Resp] {
	return &Mailbox[Req, Resp]{}
}

// Call hands req to the receiver and waits for its answer. It returns the context's error when the
// context has ended, or ends first; in the latter case the request may have been taken, and its
// outcome is not known. An answer that was given before the context ended counts. Other errors:
// [ErrAbandoned], [ErrCycle].
func (m *Mailbox[Req, Resp]) Call(ctx context.Context, req Req) (Resp, error) {
	var none Resp
	if ctx.Err() == nil && handles(ctx, m) {
		return none, fmt.Errorf("%w (%T)", ErrCycle, req)
	}
	r := &Request[Req, Resp]{Value: req, ctx: ctx, box: m, answer: make(chan answer[Resp], 1)}
	inboxes := m.inbox.Subscribe()
	for {
		// What woke it may have come together with the end of the context: select would draw lots.
		if err := ctx.Err(); err != nil {
			return none, err
		}
		in := inboxes.Take()
		var to chan *Request[Req, Resp]
		if in != nil {
			to = in.requests
		}
		select {
		case to <- r:
			return r.wait(in.closed)
		case <-inboxes.Changed():
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// Open makes the caller the receiver, in place of an earlier one. An actor opens its mailbox
// when it begins, and closes the inbox when it ends, however it ends.
func (m *Mailbox[Req, Resp]) Open() *Inbox[Req, Resp] {
	in := &Inbox[Req, Resp]{requests: make(chan *Request[Req, Resp]), closed: make(chan struct{})}
	m.inbox.Set(in)
	return in
}

// Inbox is the receiver's side of a mailbox, for one incarnation of the receiver. The zero Inbox is
// not usable: it comes from [Mailbox.Open].
type Inbox[Req, Resp any] struct {
	requests chan *Request[Req, Resp]
	closed   chan struct{}
	once     sync.Once
}

// Requests is where the receiver takes requests from, in its select loop. Each must be handled with
// [Request.Handle], answered with [Request.Reply], or kept with [Request.Keep].
func (in *Inbox[Req, Resp]) Requests() <-chan *Request[Req, Resp] { return in.requests }

// Close tells those whose requests were taken and neither answered nor kept that they were
// abandoned. It may be called more than once.
func (in *Inbox[Req, Resp]) Close() { in.once.Do(func() { close(in.closed) }) }

// Request is one call on its way.
type Request[Req, Resp any] struct {
	Value    Req
	ctx      context.Context
	box      any // the mailbox
	answer   chan answer[Resp]
	answered atomic.Bool
	kept     atomic.Bool
}

type answer[Resp any] struct {
	value Resp
	err   error
}

// wait returns the answer; an error when the context ends first, or the receiver.
func (r *Request[Req, Resp]) wait(closed <-chan struct{}) (Resp, error) {
	var none Resp
	for {
		select {
		case a := <-r.answer:
			return a.value, a.err
		case <-closed:
		case <-r.ctx.Done():
		}
		select {
		case a := <-r.answer: // it was there as well
			return a.value, a.err
		default:
		}
		if err := r.ctx.Err(); err != nil {
			return none, err
		}
		if !r.kept.Load() {
			return none, fmt.Errorf("%w (%T)", ErrAbandoned, r.Value)
		}
		closed = nil // the next incarnation has it
	}
}

// Context is the caller's: it ends when nobody waits for the answer any more.
func (r *Request[Req, Resp]) Context() context.Context { return r.ctx }

// Keep says that the request outlives this incarnation of the receiver: the next one has it and
// answers it.
func (r *Request[Req, Resp]) Keep() { r.kept.Store(true) }

// Reply answers the caller. Only the first answer counts; it never blocks.
func (r *Request[Req, Resp]) Reply(value Resp, err error) {
	if r.answered.CompareAndSwap(false, true) {
		select {
		case r.answer <- answer[Resp]{value, err}: // there is room
		default: // the zero Request has no caller
		}
	}
}

// Handle runs f and replies with what it returns. When f panics or ends the goroutine the caller
// gets [ErrAbandoned] and the failure goes on its way. A call that f makes to this mailbox with its
// context, itself or by way of other actors, is [ErrCycle] until f has returned.
func (r *Request[Req, Resp]) Handle(f func(ctx context.Context, req Req) (Resp, error)) {
	h := &handling{box: r.box, next: handlingOf(r.ctx)}
	defer func() {
		h.over.Store(true)
		var none Resp
		r.Reply(none, fmt.Errorf("%w (%T)", ErrAbandoned, r.Value))
	}()
	value, err := f(context.WithValue(r.ctx, handlingKey{}, h), r.Value)
	h.over.Store(true)
	r.Reply(value, err)
}

// handling are the mailboxes whose receivers wait for what is done under a context.
type handling struct {
	box  any
	next *handling
	over atomic.Bool // f has returned: what it left behind with its context may call
}

type handlingKey struct{}

func handlingOf(ctx context.Context) *handling {
	h, _ := ctx.Value(handlingKey{}).(*handling)
	return h
}

func handles(ctx context.Context, box any) bool {
	for h := handlingOf(ctx); h != nil; h = h.next {
		if h.box == box && !h.over.Load() {
			return true
		}
	}
	return false
}
