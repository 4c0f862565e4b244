package protocol

import (
	"strings"
	"time"
	"unicode"

	"github.com/coordd/coordd/internal/store"
)

// maxBrake is the longest text of a brake that is believed, in bytes.
const maxBrake = 1000

// LeaderState is the value of the key `office`: why the leader writes nothing, for those who look,
// and the waits that its successor goes on with. Only Absent matters for safety, and it is believed
// only as far as [Waited] says.
type LeaderState struct {
	By string    `json:"by"` // the leader's session
	At time.Time `json:"at"` // by its clock
	// Brake says why nothing is planned although there is something to do; empty when it is not so.
	Brake string `json:"brake,omitempty"`
	// Absent are the vanished members whose items wait for them.
	Absent map[string]Waited `json:"absent,omitempty"`
}

// Waited is how long a vanished member has been waited for. It counts for one absence only: while
// the member has not been back, which would have raised its ack.
type Waited struct {
	Ack     uint64        `json:"ack"` // ModifyIndex of its ack all the while
	Session string        `json:"sid"` // of its last registration, as that ack names it
	For     time.Duration `json:"for"` // nanoseconds; it has been longer since
}

// Encode returns the JSON form.
func (s LeaderState) Encode() []byte { return encode(s) }

// ParseLeaderState reads the value of the key `office`.
func ParseLeaderState(value []byte) (LeaderState, error) {
	var s LeaderState
	if err := decode("office", value, &s); err != nil {
		return LeaderState{}, err
	}
	if len(s.Brake) > maxBrake || strings.ContainsFunc(s.Brake, unicode.IsControl) {
		return LeaderState{}, store.Invalid("office", "its brake is no line of text: %q",
			store.ShortenPart(s.Brake))
	}
	for member, w := range s.Absent {
		if w.For < 0 || w.Ack == 0 || w.Session == "" {
			return LeaderState{}, store.Invalid("office",
				"member %q: %+v is no time waited for an absence", store.ShortenPart(member), w)
		}
	}
	return s, nil
}
