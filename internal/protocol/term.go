package protocol

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// Term is the value of the term key: who took the leadership last. A new leader writes the key
// in the same transaction, with a cas at the version that it has read. So it knows exactly who led
// before it; and a second copy of a take, whenever it arrives, is refused. It outlives the leader
// key.
type Term struct {
	Leader  string  `json:"leader"` // its id
	Session string  `json:"sid"`
	By      Process `json:"by,omitzero"`
	// After is the ModifyIndex of the term before this one, 0 for the first: it makes every value a
	// new one, for Consul does not bump the index of a key that stays the same.
	After uint64 `json:"after,omitempty"`
	// TTL is how long anybody may count on having led: this leader, or as long as it is not Clear
	// one before it if that is longer. Of one that has resigned before its duty began it is what
	// was left then. Nanoseconds.
	TTL time.Duration `json:"ttl"`
	// Clear: nobody who led before this leader can count on it any more.
	Clear bool `json:"clear,omitempty"`
	// Resigned: this leader's duty had ended when this was written.
	Resigned bool `json:"resigned,omitempty"`
}

// Encode returns the JSON form.
func (t Term) Encode() []byte { return encode(t) }

// ParseTerm reads a term.
func ParseTerm(value []byte) (Term, error) {
	var t Term
	if err := decode("term", value, &t); err != nil {
		return Term{}, err
	}
	if t.TTL < MinLease || t.TTL > store.MaxTTL {
		return Term{}, store.Invalid("term", "its ttl is %v; a lease has %v to %v", t.TTL,
			MinLease, store.MaxTTL)
	}
	return t, nil
}

// MinLease is the shortest lease that a member can have. A Consul that is busy answers within a
// second.
const MinLease = 2 * time.Second

// ReadTerm reads the leader key and the term key at one point of the log, consistently. A key that
// is missing has CreateIndex 0.
func (s *Store) ReadTerm(ctx context.Context) (leader, term store.Entry, err error) {
	r, err := s.Txn(ctx, store.GetOrEmpty(s.keys.Leader()),
		store.GetOrEmpty(s.keys.Term()))
	if err != nil {
		return store.Entry{}, store.Entry{}, err
	}
	leader, _ = r.Entry(s.keys.Leader())
	term, _ = r.Entry(s.keys.Term())
	return leader, term, nil
}

// AsTheTermSays is the time left that the speaker for a dead leader gives to [Store.Resign].
const AsTheTermSays time.Duration = -1

// resignTries is how often a resignation is tried between whose read and write others wrote.
const resignTries = 3

// Resign deletes the leader key if the session holds it, and has the term say so if the
// leader's duty is over; left is for how long anybody who led before may still count on it. So the
// next leader waits for the rest of that, and not for all of it once more. A deleted key has no
// lock-delay, so a successor need not wait. [store.ErrRefused]: the session does not lead, perhaps
// because of an earlier try whose answer was lost.
//
// What was read is its condition: a copy that arrives late does nothing, not even to
// another term of the same session. Where that has moved on, as by a write of this very leader that
// its stop cut off, it is read again; [store.ErrUnreachable] where it moves on all the time.
func (s *Store) Resign(ctx context.Context, session string, left time.Duration,
	over bool) error {
	if err := store.CheckSessionID("resign", session); err != nil {
		return err
	}
	for range resignTries {
		leader, term, err := s.ReadTerm(ctx)
		if err != nil {
			return err
		}
		if leader.Session != session {
			return fmt.Errorf("resign: %w", &store.RefusedError{Op: -1, Key: leader.Key,
				What: "the session does not lead"})
		}
		ops := []store.Op{store.CheckIndex(leader.Key, leader.ModifyIndex),
			store.Delete(leader.Key)}
		if t, err := ParseTerm(term.Value); err == nil && t.Session == session {
			t.After, t.Clear, t.Resigned = term.ModifyIndex, t.Clear || left == 0, over
			if over && left > 0 { // its own duty has not begun
				t.TTL = min(t.TTL, max(left, MinLease))
			}
			ops = append([]store.Op{store.CAS(term.Key, t.Encode(), 0, term.ModifyIndex)}, ops...)
		}
		if _, err = s.Txn(ctx, ops...); !errors.Is(err, store.ErrRefused) {
			return err
		}
	}
	return fmt.Errorf("resign: %w: others write to %s or %s all the time", store.ErrUnreachable,
		s.keys.Leader(), s.keys.Term())
}
