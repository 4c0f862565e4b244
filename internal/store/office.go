package store

import (
	"strings"
	"time"
	"unicode"
)

// maxBrake is the longest text of a brake that is believed, in bytes.
const maxBrake = 1000

// Office is the value of the office key: what a leader notes for those who look, and for its
// successor. Nothing of the protocol's safety hangs on it but Absent, which is believed only as far
// as [Waited] says.
type Office struct {
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
func (o Office) Encode() []byte { return encode(o) }

// ParseOffice reads the office key.
func ParseOffice(value []byte) (Office, error) {
	var o Office
	if err := decode("office", value, &o); err != nil {
		return Office{}, err
	}
	if len(o.Brake) > maxBrake || strings.ContainsFunc(o.Brake, unicode.IsControl) {
		return Office{}, invalid("office", "its brake is no line of text: %q", shorten(o.Brake))
	}
	for member, w := range o.Absent {
		if w.For < 0 || w.Ack == 0 || w.Session == "" {
			return Office{}, invalid("office", "member %q: %+v is no time waited for an absence",
				shorten(member), w)
		}
	}
	return o, nil
}
