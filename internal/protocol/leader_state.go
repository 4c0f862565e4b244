package protocol

import (
	"strings"
	"time"
	"unicode"

	"github.com/coordd/coordd/internal/store"
)

// maxBrake is the longest text of a brake that is believed, in bytes.
const maxBrake = 1000

// LeaderState is the value of the key `leader_state`: why the leader writes nothing, for those who
// look, and the waits that its successor goes on with. Only Absent matters for safety, and it is
// believed only as far as [Waited] says.
type LeaderState struct {
	By string    `json:"by"` // the leader's session
	At time.Time `json:"at"` // by its clock
	// Life is for how long after At a successor goes on with the waits: its writer may have
	// a longer TTL, and so be missed for longer, than its reader. Nanoseconds.
	Life time.Duration `json:"life,omitempty"`
	// Brake says why nothing is planned although there is something to do; empty when it is not so.
	Brake string `json:"brake,omitempty"`
	// Refused are the orders that Consul refuses, by key, and why: they are skipped for a while.
	Refused map[string]string `json:"refused,omitempty"`
	// Absent are the vanished members whose items wait for them.
	Absent map[string]Waited `json:"absent,omitempty"`
}

// Waited is how long a vanished member has been waited for. It counts for one absence only: while
// the member has not been back, which would have raised its ack.
type Waited struct {
	Ack     uint64        `json:"ack"` // ModifyIndex of its ack all the while
	Session string        `json:"sid"` // of its last registration, as that ack names it
	For     time.Duration `json:"for"` // nanoseconds; it has been longer since
	// Of is how long it is waited for in all, for those who look. Nanoseconds.
	Of time.Duration `json:"of,omitempty"`
}

// Same tells whether two are about the same absence.
func (w Waited) Same(v Waited) bool { return w.Ack == v.Ack && w.Session == v.Session }

// NoteLife is for how long the waits that a leader of these settings has noted are believed, by the
// clocks of who wrote and who reads them: 6 TTLs and two lock-delays. A leader that dies is
// followed 2 TTLs and a lock-delay later; an election of Consul's own or a copy of a renewal makes
// it 4 TTLs. A note that is older may be from a snapshot of Consul, and say nothing of what came
// after.
func NoteLife(ttl, lockDelay time.Duration) time.Duration { return 6*ttl + 2*lockDelay }

// Encode returns the JSON form.
func (s LeaderState) Encode() []byte { return encode(s) }

// ParseLeaderState reads the value of the key `leader_state`.
func ParseLeaderState(value []byte) (LeaderState, error) {
	var s LeaderState
	if err := decode("leader state", value, &s); err != nil {
		return LeaderState{}, err
	}
	if len(s.Brake) > maxBrake || strings.ContainsFunc(s.Brake, unicode.IsControl) {
		return LeaderState{}, store.Invalid("leader state", "its brake is no line of text: %q",
			store.ShortenPart(s.Brake))
	}
	if s.Life < 0 || s.Life > NoteLife(store.MaxTTL, store.MaxLockDelay) {
		return LeaderState{}, store.Invalid("leader state",
			"it is to be believed for %v; the most is %v", s.Life,
			NoteLife(store.MaxTTL, store.MaxLockDelay))
	}
	for key, why := range s.Refused {
		if !isLine(why) {
			return LeaderState{}, store.Invalid("leader state",
				"why %q is refused is no line of text", store.ShortenPart(key))
		}
	}
	for member, w := range s.Absent {
		if w.For < 0 || w.Of < 0 || w.Ack == 0 || w.Session == "" {
			return LeaderState{}, store.Invalid("leader state",
				"member %q: %+v is no time waited for an absence", store.ShortenPart(member), w)
		}
	}
	return s, nil
}
