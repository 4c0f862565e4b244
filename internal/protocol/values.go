package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// Values are JSON. Unknown fields are ignored, so that an older reader gets along with a newer
// writer.

// MaxKeep is the longest time that a stopped member's items can be kept for it.
const MaxKeep = 7 * 24 * time.Hour

// The status of a member record.
const (
	StatusAlive   = "alive"
	StatusLeaving = "leaving"
)

// MemberRecord is the value of members/<m>.
type MemberRecord struct {
	Status string `json:"status"` // StatusAlive or StatusLeaving
	// Protocol is the [Version] that the member speaks.
	Protocol int `json:"protocol,omitempty"`
	// where the member's host can be reached; may be empty
	Address  string `json:"host_address"`
	Capacity uint64 `json:"capacity,omitempty"` // the most weight it may hold; 0: no limit
	Idle     bool   `json:"idle,omitempty"`     // it runs no items
	Zone     string `json:"zone,omitempty"`
	Version  string `json:"version,omitempty"`
	// of what the member runs; empty: it does not say
	WorkVersion string `json:"work_version,omitempty"`
	// TellChanges: the leader tells it of changes of its items in the workload, while they run.
	TellChanges bool    `json:"tell_changes,omitempty"`
	Process     Process `json:"process"`
}

// Encode returns the JSON form.
func (r MemberRecord) Encode() []byte { return encode(r) }

// ParseMemberRecord reads a member record. It accepts the bare word alive,
// which a member of any language can write.
func ParseMemberRecord(value []byte) (MemberRecord, error) {
	if word := string(bytes.TrimSpace(value)); word == StatusAlive || word == StatusLeaving {
		return MemberRecord{Status: word}, nil
	}
	var r MemberRecord
	if err := decode("member record", value, &r); err != nil {
		return MemberRecord{}, err
	}
	if r.Status != StatusAlive && r.Status != StatusLeaving {
		return MemberRecord{}, store.Invalid("member record",
			`its status is %q; known are "alive" and "leaving"`, store.ShortenPart(r.Status))
	}
	if err := r.checkVersion(); err != nil {
		return MemberRecord{}, err
	}
	return r, nil
}

// The states of an assignment.
const (
	StateOwn = "own" // the member runs the item
	StateRel = "rel" // the member is to give it up
)

// Assignment is the value of assignments/<m>/<w>.
type Assignment struct {
	State string `json:"s"` // StateOwn or StateRel
	// the session it is granted to: a predecessor with the same id must not take it
	Session string `json:"to,omitempty"`
	// the plan's reason, for people, and behind [Prefers] what the item preferred its owner for
	Reason string `json:"why,omitempty"`
	// AtOnce: the item was taken over from a vanished member. It has waited for that one's lease,
	// so its work begins without a soak.
	AtOnce bool `json:"now,omitempty"`
	// Restart is the ModifyIndex of the last order to restart the item that the leader has passed
	// on under this key; the member restarts the work when it rises.
	Restart uint64 `json:"again,omitempty"`
	// Changed is the ModifyIndex of the item's workload key that the leader has told the member of
	// under this key, if that one asks for it: see [MemberRecord].
	Changed uint64 `json:"changed,omitempty"`
	// Other are fields of later versions, as JSON without braces. Who writes the key anew keeps
	// them.
	Other string `json:"-"`
}

// Prefers separates the reason of an assignment from what its owner was preferred for.
const Prefers = ", prefers "

// Encode returns the JSON form; with session and reason it takes about 70
// bytes, and there is one for each item.
func (a Assignment) Encode() []byte {
	if a.Other == "" {
		return encode(a)
	}
	own := encode(a)
	return slices.Concat(own[:len(own)-1], []byte(","), []byte(a.Other), []byte("}"))
}

// maxOther is the longest Other in bytes; what is longer is not coordd's, and is not kept.
const maxOther = 1024

// others returns the fields of a JSON object that an Assignment has no place for.
func others(value []byte) string {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(value, &fields) != nil {
		return ""
	}
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool {
		return slices.ContainsFunc([]string{"s", "to", "why", "now", "again", "changed"},
			func(own string) bool { return strings.EqualFold(own, name) })
	})
	text := encode(fields)
	if len(fields) == 0 || len(text) > maxOther {
		return ""
	}
	return string(text[1 : len(text)-1])
}

// ParseAssignment reads an assignment. A bare own or rel is accepted; it names
// no session.
func ParseAssignment(value []byte) (Assignment, error) {
	if word := string(bytes.TrimSpace(value)); word == StateOwn || word == StateRel {
		return Assignment{State: word}, nil
	}
	var a Assignment
	if err := decode("assignment", value, &a); err != nil {
		return Assignment{}, err
	}
	if a.State != StateOwn && a.State != StateRel {
		return Assignment{}, store.Invalid("assignment",
			`its state is %q; known are "own" and "rel"`,
			store.ShortenPart(a.State))
	}
	if err := couldBeSession("assignment", a.Session); err != nil {
		return Assignment{}, err
	}
	if !bytes.Equal(bytes.TrimSpace(value), a.Encode()) { // as this version has written it
		a.Other = others(value)
	}
	return a, nil
}

// Ack is the value of acks/<m>: "look again". What counts for conditions is
// the ModifyIndex of the key; the counter makes every write a change, because
// Consul does not bump the index for an identical value.
type Ack struct {
	Counter uint64  `json:"n"`
	Session string  `json:"sid,omitempty"` // the session that wrote it
	By      Process `json:"by,omitzero"`
	// inherited items may be started: no predecessor can still run them
	Clear bool `json:"clear,omitempty"`
	// TTL is how long anybody may count on a lease under this id: that session's, or as long as it
	// is not Clear a predecessor's if that is longer. Nanoseconds.
	TTL time.Duration `json:"ttl,omitempty"`
	// Stopped: all work of that session had ended when this was written, and none
	// will be started; its items wait for their member for Keep (nanoseconds).
	Stopped bool          `json:"stopped,omitempty"`
	Keep    time.Duration `json:"keep,omitempty"`
	// Failing: the member's summary names items whose work fails too often, which the leader is to
	// take away.
	Failing bool `json:"failing,omitempty"`
	// Copied: two machines say that they are the same one, as those resumed from one snapshot do.
	// No process of this id is known dead because this machine has none such.
	Copied bool `json:"copied,omitempty"`
}

// Encode returns the JSON form.
func (a Ack) Encode() []byte { return encode(a) }

// ParseAck reads an ack. A bare number is accepted.
func ParseAck(value []byte) (Ack, error) {
	if n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64); err == nil {
		return Ack{Counter: n}, nil
	}
	var a Ack
	if err := decode("ack", value, &a); err != nil {
		return Ack{}, err
	}
	if err := couldBeSession("ack", a.Session); err != nil {
		return Ack{}, err
	}
	switch {
	case a.TTL != 0 && (a.TTL < MinLease || a.TTL > store.MaxTTL):
		return Ack{}, store.Invalid("ack", "its ttl is %v; a lease has %v to %v", a.TTL, MinLease,
			store.MaxTTL)
	case a.Keep < 0, a.Keep > MaxKeep:
		return Ack{}, store.Invalid("ack", "its items are to be kept for %v; the most is %v",
			a.Keep,
			MaxKeep)
	}
	return a, nil
}

// couldBeSession refuses what no Consul has ever named a session; empty means none. Consul takes
// capital letters for small ones, but not where it compares a key's session.
func couldBeSession(what, id string) error {
	if id != "" && (store.CheckSessionID(what, id) != nil || id != strings.ToLower(id)) {
		return store.Invalid(what, "%q is no session of Consul's", store.ShortenPart(id))
	}
	return nil
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("protocol: %T cannot fail to encode: %v", v, err))
	}
	return data
}

func decode(what string, value []byte, into any) error {
	if trimmed := bytes.TrimSpace(value); len(trimmed) == 0 || trimmed[0] != '{' {
		return store.Invalid(what, "the value %q is not a JSON object",
			store.ShortenPart(string(value)))
	}
	if err := json.Unmarshal(value, into); err != nil {
		return store.Invalid(what, "the value %q does not parse: %s",
			store.ShortenPart(string(value)),
			store.ShortenPart(err.Error()))
	}
	return nil
}
