package facts

import "time"

// Observation is something that happened and that no state shows, for those who count: one of the
// types of this file. More may come: an [Observer] ignores those that it does not know.
type Observation interface{ event() }

// Observer is told of events at the moment they happen, by the actor that causes them. Observe
// returns at once, does not panic, and is safe for concurrent use. A nil Observer is none: then an
// event costs nothing.
type Observer interface{ Observe(Observation) }

// PollOpened says that a long poll was sent to Consul. Its [CallEnded] has the Kind [KindPoll].
type PollOpened struct{}

// KindPoll is the [CallEnded.Kind] of a long poll. It takes as long as nothing changes.
const KindPoll = "poll"

// CallEnded says that a call to Consul came back.
type CallEnded struct {
	// Kind is what was asked: "get", "txn", "session_renew" and so on, two dozen at most.
	Kind string
	// Result is "ok"; "refused" by a condition; "session_gone"; "denied"; "invalid"; "not_found";
	// "no_answer" in time; "unreachable"; "canceled" by its caller; "failed" for all else.
	Result string
	Took   time.Duration
}

// ResultOK is the result of what succeeded.
const ResultOK = "ok"

// RenewalEnded says how a renewal of this member's session went. Its time begins when it is due and
// ends with Consul's confirmation; what was sent more than once meanwhile is one renewal.
type RenewalEnded struct {
	Result string // as of a [CallEnded]
	Took   time.Duration
}

// Assigned says what the leader has written, when Consul has it.
type Assigned struct {
	// Action is "granted", "revoked", "cancelled" (a revocation), "taken-over" from a lost member,
	// "erased" (a lost member's key of an item that is no more), "restarted", "changed" (the owner
	// is told), "swept" (what a lost member has left that held nothing) or "forgotten" (that work
	// failed).
	Action string
	Reason string // the plan's, two dozen at most; may be empty
	Items  int
}

// TakenOver says that an item of a lost member has been given to another one.
type TakenOver struct {
	// After is the time since the leader first missed the member's record. What Consul took to
	// notice the loss was before.
	After time.Duration
}

func (PollOpened) event()   {}
func (CallEnded) event()    {}
func (RenewalEnded) event() {}
func (Assigned) event()     {}
func (TakenOver) event()    {}
