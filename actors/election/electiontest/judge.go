package electiontest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/test/linearizable"
)

// Judge writes down what happens to the leadership of elections, and finds out afterwards whether
// one register explains it: the lock of that election. It knows no rule of the product. What is
// right is linearizability (package linearizable): each operation has taken effect at one instant
// between its call and its return, and in that order they make sense to one register.
//
// The register holds nobody, or one candidate with its token. Besides, it knows the largest token
// so far.
//
//	take      nobody, and a token above all earlier ones: now it is held. Its holder may take it
//	          again: the token stays. A take that was refused has no effect after that, unless a
//	          lock-delay has refused it.
//	release   of its holder: now it is nobody's. Leave is the same. Of anybody else: no effect.
//	loss      the same, done by nobody: the holder's session has ended. It may come after each
//	          take.
//	work      at this instant the duty is under way: true only of the holder, with its token,
//	          which the answer to a take has told it before.
//	look      somebody has read the store: true only of what the register holds. Where the store
//	          says that the last leader is lost, and not who may be next, the look says nothing.
//
// Take, release and leave are the calls of the backend, so their intervals are the caller's own.
// One that failed may take effect until the next one of that candidate has succeeded, and for ever
// if there is none: what arrives later must have none. A take that was refused may have come twice:
// the first copy won, the lock was lost again, and the second copy was refused. So it may have held
// the lock until it returned, and not a moment longer. One that a lock-delay has refused (Delayed)
// may come again when the delay is over, and win: until the next one of that candidate has
// succeeded, or the next take of anybody. A candidate that crashed needs no operation of its own:
// its last work is its last sign of life, and the loss may come at any time after it.
//
// What makes this falsifiable is that work is a read and not a part of take and release. A release
// that spanned the time from the order to stop until the duty has ended would allow the register to
// be free while the duty still stops, and a take that spanned the time until the duty begins could
// hide a second holder. Here the register is the holder's from the first to the last instant of the
// duty in every order that fits, and a loss that is free to happen at any time explains no work
// after it. So the judge notices two duties at once, a duty without the lock, a lock given up too
// early also when nobody else wants it, a token that falls or comes twice, and a take or a release
// that takes effect after it is settled. It does not notice that nobody leads, nor that a
// leadership was lost needlessly.
type Judge struct {
	mu    sync.Mutex
	clock int64
	began time.Time
	all   map[string][]*operation // by election, in the order of their calls
	runs  map[string]int          // by election and period
}

// NewJudge returns a judge who has seen nothing yet.
func NewJudge() *Judge {
	return &Judge{began: time.Now(), all: map[string][]*operation{}, runs: map[string]int{}}
}

type verb string

const (
	taking    verb = "take"
	releasing verb = "release"
	leaving   verb = "leave"
	losing    verb = "loss"
	working   verb = "work"
	looking   verb = "look"
)

// operation is one of the register. The order of call and ret is that of real time; at is for
// people.
type operation struct {
	verb
	id        string // of the candidate; of a look: of the holder, or empty
	token     uint64 // 0: none, or not known
	unknown   bool   // its outcome
	refused   bool   // a take; its outcome is not known either, but it is over when it returns
	delayed   bool   // a take that a lock-delay has refused; it is not over
	call, ret int64
	at        time.Duration
}

func (o *operation) String() string {
	text := fmt.Sprintf("%12v  %-7s %s", o.at, o.verb, o.id)
	if o.verb == looking && o.id == "" {
		text += "nobody"
	}
	if o.token != 0 {
		text += fmt.Sprintf(", token %d", o.token)
	}
	switch {
	case o.refused:
		text += ", refused"
	case o.delayed:
		text += ", refused by a lock-delay"
	case o.unknown:
		text += ", outcome unknown"
	}
	return text
}

// begin notes the call of an operation. It counts only once it has ended.
func (j *Judge) begin(v verb, id string) *operation {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.clock++
	return &operation{verb: v, id: id, call: j.clock, at: time.Since(j.began)}
}

func (j *Judge) end(name string, o *operation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.clock++
	o.ret = j.clock
	j.all[name] = append(j.all[name], o)
}

// Work says that the duty of a candidate is under way at this instant.
func (j *Judge) Work(name, id string, token uint64) {
	o := j.begin(working, id)
	o.token = token
	j.end(name, o)
}

// Ran says that the duty begins for a period of its schedule. No period may be run twice.
func (j *Judge) Ran(name string, period time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs[name+" "+period.Format(time.RFC3339)]++
}

// Look records a reading of the store: who holds the leadership. Without an ID nobody does. If ok
// is false the reading says nothing and is not recorded.
func (j *Judge) Look(name string, read func() (id string, token uint64, ok bool)) {
	o := j.begin(looking, "")
	var ok bool
	if o.id, o.token, ok = read(); ok {
		j.end(name, o)
	}
}

// Record returns conn with every call of its backends recorded by the judge.
func (j *Judge) Record(conn election.Connection) election.Connection {
	return recordedConnection{conn, j}
}

// recordedConnection is a connection whose backends the judge records.
type recordedConnection struct {
	election.Connection
	judge *Judge
}

func (h recordedConnection) Open(name string) (election.Backend, error) {
	b, err := h.Connection.Open(name)
	if err != nil {
		return nil, err
	}
	return &recordedBackend{Backend: b, judge: h.judge, name: name}, nil
}

// recordedBackend is a backend whose calls the judge records.
type recordedBackend struct {
	election.Backend
	judge *Judge
	name  string
	id    string
}

func (w *recordedBackend) Join(ctx context.Context, c election.Candidate) (string, error) {
	w.id = c.ID
	return w.Backend.Join(ctx, c)
}

func (w *recordedBackend) Take(ctx context.Context) (token uint64, retry time.Duration, err error) {
	o := w.judge.begin(taking, w.id)
	var delayed atomic.Bool
	token, retry, err = w.Backend.Take(context.WithValue(ctx, delayedKey{}, &delayed))
	refused := token == 0 && err == nil
	o.token, o.unknown = token, err != nil || refused
	o.refused, o.delayed = refused && !delayed.Load(), refused && delayed.Load()
	w.judge.end(w.name, o)
	return token, retry, err
}

// delayedKey is that of the context of a take.
type delayedKey struct{}

// Delayed says that a lock-delay has refused a take: the answer that has said so is on its way to
// the backend. ctx is that of the request.
func Delayed(ctx context.Context) {
	if delayed, ok := ctx.Value(delayedKey{}).(*atomic.Bool); ok {
		delayed.Store(true)
	}
}

func (w *recordedBackend) Release(ctx context.Context) error {
	o := w.judge.begin(releasing, w.id)
	err := w.Backend.Release(ctx)
	o.unknown = err != nil
	w.judge.end(w.name, o)
	return err
}

func (w *recordedBackend) Leave(ctx context.Context) error {
	o := w.judge.begin(leaving, w.id)
	err := w.Backend.Leave(ctx)
	o.unknown = err != nil
	w.judge.end(w.name, o)
	return err
}

// Counted tells how many operations of each kind there are.
func (j *Judge) Counted() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := map[string]int{"period": len(j.runs)}
	for _, all := range j.all {
		for _, o := range all {
			what := string(o.verb)
			switch {
			case o.refused:
				what += " refused"
			case o.delayed:
				what += " delayed"
			case o.unknown:
				what += " of unknown outcome"
			}
			n[what]++
		}
	}
	return n
}

// Verdict returns nil if every election's history is that of a register, and else says where it is
// not. Call it when everything has come to rest, and outside of a bubble of testing/synctest: the
// limit is in real time.
func (j *Judge) Verdict(limit time.Duration) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for period, n := range j.runs {
		if n > 1 {
			errs = append(errs, fmt.Errorf("election and period %s: run %d times", period, n))
		}
	}
	for name, all := range j.all {
		slices.SortFunc(all, func(a, b *operation) int { return cmp.Compare(a.call, b.call) })
		if o := untold(all); o != nil {
			errs = append(errs, fmt.Errorf("election %s: no take has answered with this token: "+
				"%s   <- fits nowhere", name, o))
			continue
		}
		history := complete(all)
		switch order, err := linearizable.Check(history, held{}, register, limit); {
		case errors.Is(err, linearizable.ErrLimit):
			errs = append(errs, fmt.Errorf("election %s: no verdict on %d operations within %v",
				name, len(history), limit))
		case err != nil:
			errs = append(errs, fmt.Errorf("election %s: no register does this: %s", name,
				explain(history, order)))
		}
	}
	return errors.Join(errs...)
}

// untold returns the first work of a candidate that no answer to a take had told its token by then;
// nil: there is none. That somebody else has seen the candidate hold the lock tells it nothing.
func untold(all []*operation) *operation {
	for _, work := range all {
		if work.verb == working && !slices.ContainsFunc(all, func(o *operation) bool {
			return o.verb == taking && !o.unknown && o.id == work.id && o.token == work.token &&
				o.ret < work.call
		}) {
			return work
		}
	}
	return nil
}

// complete adds the losses and leaves out what cannot matter, so that the checker has little to
// try. (With all of it left in, some histories had no verdict within a minute.)
//
//   - An operation of unknown outcome ends with the next one of its candidate whose outcome is
//     known; a take that was refused with its own return; and one that a lock-delay has refused
//     with the next take whose outcome is known, too, of any candidate.
//   - A take of unknown outcome whose effect nobody has seen may as well have had none. Of several
//     in a row whose effect was seen, any one may be that: they are one that takes longer.
//   - A release of unknown outcome is no more than the loss that comes with each token.
//   - Who never took the lock has nothing to give up.
//   - A loss comes once for each token, after the last that was seen of it, and before the first
//     sign of a larger one. If only takes that were refused explain the token, it comes before the
//     last of them returns.
func complete(all []*operation) (history []linearizable.Operation[*operation]) {
	kept, took := takes(all)
	for _, o := range all {
		if (o.verb == releasing || o.verb == leaving) && took[o.id] && !o.unknown ||
			o.verb == working || o.verb == looking {
			kept = append(kept, o)
		}
	}
	for _, o := range append(kept, losses(all, kept)...) {
		history = append(history, linearizable.Operation[*operation]{Op: o, Call: o.call, Return: o.ret})
	}
	return history
}

// row is a candidate with a token that it took, and, of a take of unknown outcome, with its end.
type row struct {
	id    string
	token uint64
	ret   int64
}

// takes returns the takes that matter, and the candidates that made one.
func takes(all []*operation) (kept []*operation, took map[string]bool) {
	tries, took := map[row]*operation{}, map[string]bool{}
	for i, o := range all {
		if o.verb != taking {
			continue
		}
		k := *o
		if o.unknown {
			if k.token = seen(all, o); k.token == 0 {
				continue
			}
			k.ret = effective(o, all[i+1:])
			r := row{k.id, k.token, k.ret}
			if tries[r] != nil {
				continue // the first one begins before this one and ends with it
			}
			tries[r] = &k
		}
		took[o.id] = true
		kept = append(kept, &k)
	}
	return kept, took
}

// losses returns a loss for each token that one of the operations kept has taken.
func losses(all, kept []*operation) (losses []*operation) {
	by := map[row]*operation{}
	for _, o := range kept {
		if o.verb != taking {
			continue
		}
		r := row{id: o.id, token: o.token}
		if by[r] == nil {
			by[r] = &operation{verb: losing, id: o.id, token: o.token}
		}
		if o.refused { // held until it returned at the latest
			by[r].ret = max(by[r].ret, o.ret)
		} else {
			by[r].ret = math.MaxInt64
		}
	}
	for r, loss := range by {
		for _, o := range kept {
			if o.id == r.id && o.token == r.token && o.call > loss.call && o.call < loss.ret {
				loss.call, loss.at = o.call, o.at
			}
		}
		for _, o := range all {
			if o.token > r.token && (o.verb == taking || o.verb == looking) {
				loss.ret = min(loss.ret, max(loss.call, o.ret))
			}
		}
		losses = append(losses, loss)
	}
	return losses
}

// effective returns until when a take of unknown outcome may take effect. later are the operations
// after it.
func effective(o *operation, later []*operation) int64 {
	if o.refused {
		return o.ret
	}
	for _, next := range later {
		if next.unknown || next.verb == working || next.verb == looking {
			continue
		}
		if next.id == o.id || o.delayed && next.verb == taking && next.call > o.ret {
			return next.ret
		}
	}
	return math.MaxInt64
}

// seen returns the token by which a look has seen what a take of unknown outcome may have done, and
// no known take of that candidate has; 0: there is none.
func seen(all []*operation, o *operation) uint64 {
	if o.verb != taking {
		return 0
	}
	for _, look := range all {
		if look.verb != looking || look.id != o.id || look.ret < o.call ||
			o.refused && look.call > o.ret {
			continue
		}
		if !slices.ContainsFunc(all, func(k *operation) bool {
			return k.verb == taking && k.id == o.id && k.token == look.token && k.call < look.ret
		}) {
			return look.token
		}
	}
	return 0
}

// held is the state of the register.
type held struct {
	id    string // empty: nobody
	token uint64
	top   uint64 // the largest token so far
}

// register says whether an operation makes sense in a state, and what the state is then.
func register(is held, o *operation) (held, bool) {
	switch o.verb {
	case taking:
		if is.id == "" && o.token > is.top {
			return held{o.id, o.token, o.token}, true
		}
		// it never was, or it took what it has
		return is, o.unknown || is == held{o.id, o.token, is.top}
	case losing:
		if is.token == o.token && is.id == o.id {
			is.id, is.token = "", 0
		}
		return is, o.token <= is.top // nothing is lost that nobody has had
	case releasing, leaving:
		if is.id == o.id {
			is.id, is.token = "", 0
		}
		return is, true
	}
	return is, is == held{o.id, o.token, is.top} // a look that finds nobody, too
}

// explain finds the operation that fits nowhere, and what came before it in the longest order.
func explain(history []linearizable.Operation[*operation], longest []*operation) string {
	var bad *operation
	for _, o := range history {
		if !slices.Contains(longest, o.Op) && (bad == nil || o.Return < bad.ret) {
			bad = o.Op
		}
	}
	var story []string
	for i, o := range longest {
		// of work that goes on, and of looks that find the same, the last one will do
		if i+1 < len(longest) {
			if next := longest[i+1]; next.verb == o.verb && next.id == o.id && next.token == o.token {
				continue
			}
		}
		story = append(story, o.String())
	}
	story = story[max(0, len(story)-12):]
	if bad != nil {
		story = append(story, bad.String()+"   <- fits nowhere")
	}
	return fmt.Sprintf("%d of %d operations fit; the last of them:\n%s", len(longest), len(history),
		strings.Join(story, "\n"))
}
