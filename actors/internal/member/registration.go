package member

import (
	"bytes"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// The decisions of a registration. They use no clock and no I/O: what is read, sent and waited for
// stands in membership_keeper.go and predecessor.go.

// recordStep is what the membership-keeper does about the record that it has registered.
type recordStep int

const (
	recordStands      recordStep = iota // as far as it is known
	recordBehind                        // the view is older than the record: it is read
	recordLost                          // another session holds it, or none
	recordOverwritten                   // somebody else has put another value into it
	recordOutdated                      // it is as this member wrote it, before a setting changed
)

// recordFacts is what is known of the record at one moment.
type recordFacts struct {
	session string
	was     facts.Membership
	record  OwnRecord
	sent    uint64 // the view when the last registration began
	value   []byte // that the record should have
}

func (f recordFacts) next() recordStep {
	rec := f.record
	switch {
	case !rec.Known || rec.View <= f.sent:
		return recordStands // the watch has not caught up with the registration
	case rec.Index < f.was.Index:
		return recordBehind
	case rec.Entry.Session != f.session:
		return recordLost
	case rec.Entry.ModifyIndex > f.was.Written && !bytes.Equal(rec.Entry.Value, f.value):
		return recordOverwritten
	case rec.Entry.ModifyIndex == f.was.Written && !bytes.Equal(rec.Entry.Value, f.value):
		return recordOutdated
	}
	return recordStands
}

// lastAck is this member's acks key as its last registrant left it: it outlives
// that one's record and says who it was.
type lastAck struct {
	found bool
	index uint64
	ack   protocol.Ack
	bad   bool // found, and not readable
	// sentinel is the lease that the sentinel names. It counts where the ack does not say one.
	sentinel time.Duration
}

// inheritance is what is known of the leases that were held under the id before.
type inheritance struct {
	now time.Time
	old lastAck
	ttl time.Duration // of this member's session
	// keys: items are assigned to the id. It is looked at where there is no ack.
	keys bool
	// instance is this process's, and clearAt what an earlier registration of it waits for.
	instance string
	clearAt  time.Time
	liveness protocol.Liveness // of the process that wrote the ack
}

// lease is the longest lease that a predecessor may hold: the one that its ack names. Where nothing
// that can be read does, it is the sentinel's, or taken for one as long as the TTL.
func (i inheritance) lease() time.Duration { return i.old.lease(i.ttl) }

func (o lastAck) lease(ttl time.Duration) time.Duration {
	if o.found && !o.bad && o.ack.TTL > 0 {
		return o.ack.TTL
	}
	return max(ttl, o.ack.TTL, o.sentinel)
}

// until tells when items that this member inherits may be started or released;
// the zero time: at once. A predecessor with this id may be frozen, or have had
// its session ended early, and still be inside its lease: then they may not,
// until its TTL after this registration has passed.
//
// There is nothing to wait for when no such lease can be: when the last registrant had nothing to
// wait for itself any more (acks say so: Clear) and is this very process, or known to be dead, or
// said itself that all its work has ended (Stopped); or when it said goodbye, or the leader has
// reaped it: then its acks key is gone and so are all its keys. "Clear" is what makes this hold
// along a chain of predecessors: one that died while it was still waiting for its own predecessor
// passes the wait on.
func (i inheritance) until() time.Time {
	full, ack := i.now.Add(i.lease()), i.old.ack
	switch {
	case !i.old.found && !i.keys:
		return time.Time{}
	case !i.old.found, i.old.bad:
		return full
	case ack.Stopped && ack.Clear:
		return time.Time{}
	case ack.By.Instance == i.instance && i.instance != "":
		waits := !i.clearAt.IsZero()
		switch {
		case ack.Clear, waits && !i.now.Before(i.clearAt):
			return time.Time{}
		case waits:
			return i.clearAt
		}
		return full
	case ack.Clear && i.liveness == protocol.Dead:
		return time.Time{}
	}
	return full
}

// registration is what a member writes when it registers.
type registration struct {
	keys    protocol.Keys
	id      string
	session string

	value  []byte      // of the record
	record store.Entry // that is there, locked by nobody; its ModifyIndex is 0 if there is none
	ack    []byte
	old    lastAck
	// sentinel is the value of the prefix of this member's assignments.
	sentinel []byte
	// joined is the ModifyIndex of the sequence key of registrations. It counts where there is no
	// ack.
	joined uint64
}

// ops is the transaction. It takes effect once: the record that it finds, or finds missing, and the
// ack or the sequence key are other ones afterwards.
func (r registration) ops() []store.Op {
	key, ackKey := r.keys.Member(r.id), r.keys.Ack(r.id)
	var ops []store.Op
	if r.record.ModifyIndex > 0 { // a new key has a CreateIndex of its own: fencing tokens need it
		ops = append(ops, store.DeleteCAS(key, r.record.ModifyIndex))
	} else {
		ops = append(ops, store.CheckNotExists(key))
	}
	ops = append(ops, store.Lock(key, r.value, 0, r.session))
	if r.old.found {
		ops = append(ops, store.CAS(ackKey, r.ack, 0, r.old.index))
	} else {
		ops = append(ops, store.Create(ackKey, r.ack))
	}
	// The sentinel is written here and not by the leader, with a value that was never there before
	// (an identical one would not raise the index): so it is there before the watch of the prefix,
	// which without it would wake for every neighbour, and the prefix's index is never below the
	// record's, by which an answer from before the registration is known.
	ops = append(ops, store.Set(r.keys.AssignmentsOf(r.id), r.sentinel, 0))
	if !r.old.found {
		ops = append(ops, store.Advance(joinKey(r.keys, r.id), r.joined))
	}
	return ops
}

// joinKey is the sequence key of a member's registrations. Without it a copy of one that found no
// ack could be applied once more after the goodbye, which takes the ack away.
func joinKey(k protocol.Keys, id string) string { return k.JoinSequence(id) }

// holder is who is in the way of a registration.
type holder struct {
	session string
	address string
	process protocol.Process
	ttl     time.Duration // of the session
	named   bool          // the session bears the name of this member
	stopped bool          // it has said that all its work has ended, and has not ended its session
}

// holderStep is what a registering member does about who holds its id.
type holderStep int

const (
	waitForExpiry holderStep = iota // its session expires if it is dead
	endItsSession                   // it is dead
	refuseID                        // it lives
)

// next decides, given this process's instance and what is known of the holder's process. A dead
// process's session is ended at once. A living one keeps the id: this member refuses to start. One
// on another host cannot be asked: its session expires if it is dead.
func (h holder) next(instance string, liveness protocol.Liveness) holderStep {
	// an earlier session of this very process, whose work has ended or is ending
	own := h.process.Instance == instance && instance != ""
	switch dead := own || h.stopped || liveness == protocol.Dead; {
	case dead && h.named:
		return endItsSession
	case !dead && liveness == protocol.Alive:
		return refuseID
	}
	return waitForExpiry
}
