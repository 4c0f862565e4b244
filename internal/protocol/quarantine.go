package protocol

import (
	"slices"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// MaxOwners is how many members a leader lets an item fail at before it quarantines the item.
const MaxOwners = 2

// SuspectAfter is how many items have to fail at a member, and run elsewhere, for the status to
// name the member.
const SuspectAfter = 3

// MaxHere is the most members that a [Quarantine] names as registered.
const MaxHere = 100

// FailedFor is how long a failure at a member counts, by the clock of the leader.
const FailedFor = 24 * time.Hour

// Quarantine is the value of quarantine/<w>: where the work of item w has failed too often.
type Quarantine struct {
	Failed []FailedOwner `json:"failed"` // one for each member, the oldest first
	// Since is from when on nobody runs the item; zero: it is tried elsewhere. Milliseconds of Unix
	// time, by the leader's clock.
	Since int64 `json:"since,omitempty"`
	// Here are the members that were registered then, if they are [MaxHere] at the most. It is tried
	// at a member of another id.
	Here []string `json:"here,omitempty"`
	// Orders is the index of the operators' orders as the leader knew them when it wrote this.
	Orders uint64 `json:"orders,omitempty"`
	// Made is the CreateIndex of the item's key in the workload, likewise.
	Made uint64 `json:"made,omitempty"`
}

// known is what a leader knew when it wrote a key with that ModifyIndex, by what the key says of
// that: no more than there was.
func known(says, modifyIndex uint64) uint64 {
	if says == 0 || says > modifyIndex {
		return modifyIndex
	}
	return says
}

// EndedBy tells whether an order to restart the item, given at that index of Consul's, ends what a
// key with that ModifyIndex says. One that the leader did not know of yet does: it is about the
// work that has failed.
func (q Quarantine) EndedBy(order, modifyIndex uint64) bool {
	return order > known(q.Orders, modifyIndex)
}

// OfEarlier tells whether a key with that ModifyIndex is about an earlier item of the name than the
// one whose key in the workload was created at that index: it was removed, and added again.
func (q Quarantine) OfEarlier(created, modifyIndex uint64) bool {
	return created > known(q.Made, modifyIndex)
}

// FailedOwner is a member at which the work of an item has failed too often.
type FailedOwner struct {
	Member  string `json:"m"`
	Session string `json:"sid"` // of then: a member that was registered anew may be tried again
	At      int64  `json:"at"`  // milliseconds of Unix time, by the leader's clock
	Exit    string `json:"exit,omitempty"`
}

// Time is when the leader heard of it.
func (f FailedOwner) Time() time.Time { return time.UnixMilli(f.At).UTC() }

// Until is how long it counts.
func (f FailedOwner) Until() time.Time { return f.Time().Add(FailedFor) }

// FailsAt tells whether the work has failed at a member that is registered under session still, and
// the item was not quarantined for it.
func (q Quarantine) FailsAt(member, session string, now time.Time) bool {
	return q.Since == 0 && slices.ContainsFunc(q.Failed, func(f FailedOwner) bool {
		return f.Member == member && f.Session == session && now.Before(f.Until())
	})
}

// Last is the failure that was heard of last. There is one in each value that was read.
func (q Quarantine) Last() FailedOwner { return q.Failed[len(q.Failed)-1] }

// Members names the members at which the work has failed.
func (q Quarantine) Members() []string {
	ids := make([]string, len(q.Failed))
	for i, f := range q.Failed {
		ids[i] = f.Member
	}
	return ids
}

// Quarantines returns the prefix of what is known of items whose work fails. Nobody watches it.
func (k Keys) Quarantines() string { return k.root + "quarantine/" }

// Quarantine returns the key that says where the work of item w has failed.
func (k Keys) Quarantine(w string) string { return k.Quarantines() + w }

// Encode returns the JSON form.
func (q Quarantine) Encode() []byte { return encode(q) }

// maxFailed is the most members that are read; a later version may have more than [MaxOwners].
const maxFailed = 100

// ParseQuarantine reads what is known of an item whose work fails.
func ParseQuarantine(value []byte) (Quarantine, error) {
	const kind = "quarantine"
	var q Quarantine
	if err := decode(kind, value, &q); err != nil {
		return Quarantine{}, err
	}
	if n := len(q.Failed); n == 0 || n > maxFailed || q.Since < 0 || q.Since > lastMillisecond {
		return Quarantine{}, store.Invalid(kind, "it names %d members and the time %d", n, q.Since)
	}
	if len(q.Here) > 10*MaxHere {
		return Quarantine{}, store.Invalid(kind, "it names %d members as registered", len(q.Here))
	}
	for _, f := range q.Failed {
		if err := couldBeSession(kind, f.Session); err != nil {
			return Quarantine{}, err
		}
		if CheckID("member id", f.Member) != nil || f.At < 0 || f.At > lastMillisecond ||
			!isLine(f.Exit) {
			return Quarantine{}, store.Invalid(kind, "it names %q, which is no member's failure",
				store.ShortenPart(f.Member))
		}
	}
	return q, nil
}

// ItemQuarantine is a key under [Keys.Quarantines].
type ItemQuarantine struct {
	Item string
	Quarantine
}

// ReadQuarantine reads what is known of an item whose work fails. A value that does not parse does
// not count: the item runs.
func (k Keys) ReadQuarantine(e store.Entry) (q ItemQuarantine, ok bool, err error) {
	q.Item, q.Quarantine, ok, err = readNamed(e, k.Quarantines(), "quarantine", "item",
		ParseQuarantine)
	return q, ok, err
}
