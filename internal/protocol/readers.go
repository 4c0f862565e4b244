package protocol

import (
	"iter"
	"strings"

	"github.com/coordd/coordd/internal/store"
)

// Each kind of key has one reader: a method of [Keys] that takes an entry and returns what it says.
// Ok tells whether the key counts. Err says what is wrong with it; that has it named, and changes
// nothing else. A key that is of no form of this service does not count. A key whose value does not
// parse counts, with the value that its reader's comment names. A sentinel does not count, and
// nothing is wrong with it.

// Read yields the entries that count by a reader, with what each says, and passes those with
// something wrong to unreadable.
func Read[T any](entries []store.Entry, read func(store.Entry) (T, bool, error),
	unreadable func(store.Entry, string)) iter.Seq2[store.Entry, T] {
	return func(yield func(store.Entry, T) bool) {
		for _, e := range entries {
			value, ok, err := read(e)
			if err != nil {
				unreadable(e, err.Error())
			}
			if ok && !yield(e, value) {
				return
			}
		}
	}
}

// sentinel tells whether e is a prefix's own sentinel, or what Consul's page makes of a folder.
func sentinel(e store.Entry) bool { return strings.HasSuffix(e.Key, "/") && len(e.Value) == 0 }

// notA is what is wrong with a key that is not of a kind.
func notA(kind string, e store.Entry, why string) error {
	if sentinel(e) {
		return nil
	}
	return store.Invalid(kind, "%s", why)
}

// readNamed reads the id that a key below prefix ends in, and its value. A value that does not
// parse does not count.
func readNamed[T any](e store.Entry, prefix, kind, of string, parse func([]byte) (T, error)) (
	id string, value T, ok bool, err error) {
	if id, ok = parseID(e.Key, prefix); !ok {
		return "", value, false, notA(kind, e, "no "+of+" id")
	}
	value, err = parse(e.Value)
	return id, value, err == nil, err
}

// Member is a key under [Keys.Members].
type Member struct {
	ID string
	MemberRecord
	Unreadable bool
}

// ReadMember reads a member's record. One that no session locks does not count, for its writer may
// be long gone. A value that does not parse is an empty record: who holds the lock lives and
// may be at work, so it is a member, of which nothing else is known.
func (k Keys) ReadMember(e store.Entry) (m Member, ok bool, err error) {
	if m.ID, ok = k.ParseMember(e.Key); !ok {
		return Member{}, false, notA("member record", e, "no member id")
	}
	if e.Session == "" {
		return Member{}, false, store.Invalid("member record",
			"not locked by any session: no living member's record")
	}
	m.MemberRecord, err = ParseMemberRecord(e.Value)
	m.Unreadable = err != nil
	return m, true, err
}

// MemberAck is a key under [Keys.Acks].
type MemberAck struct {
	Member string
	Ack
	Unreadable bool
}

// ReadAck reads a member's ack. A value that does not parse is an empty ack, which is not clear and
// keeps nobody waiting for less than the longest: its index says "look again" all the same.
func (k Keys) ReadAck(e store.Entry) (a MemberAck, ok bool, err error) {
	if a.Member, ok = k.ParseAck(e.Key); !ok {
		return MemberAck{}, false, notA("ack", e, "no member id")
	}
	a.Ack, err = ParseAck(e.Value)
	a.Unreadable = err != nil
	return a, true, err
}

// ItemAssignment is a key under [Keys.Assignments].
type ItemAssignment struct {
	Member, Item string
	Assignment
	Unreadable bool
}

// ReadAssignment reads an assignment; a member's sentinel is none. A value that does not parse is
// that of an item that is owned under no session: it may be worked on, so nobody else may get it
// before its member has released it.
func (k Keys) ReadAssignment(e store.Entry) (a ItemAssignment, ok bool, err error) {
	if a.Member, a.Item, ok = k.ParseAssignment(e.Key); !ok {
		return ItemAssignment{}, false, notA("assignment", e, "no item id")
	}
	if a.Item == "" {
		return ItemAssignment{}, false, nil
	}
	a.Assignment, err = ParseAssignment(e.Value)
	if err != nil {
		a.State, a.Unreadable = StateOwn, true
	}
	return a, true, err
}

// WorkItem is a key under [Keys.Workload]. Its payload is the host's own.
type WorkItem struct {
	ID     string
	Weight uint64 // at least 1
}

// ReadWorkItem reads an item of the workload. Any value is one.
func (k Keys) ReadWorkItem(e store.Entry) (w WorkItem, ok bool, err error) {
	id, ok := k.ParseWorkItem(e.Key)
	if !ok {
		return WorkItem{}, false, notA("work item", e, "no item id")
	}
	return WorkItem{ID: id, Weight: max(1, e.Flags)}, true, nil
}

// UnreadableLeader stands for the id of a leader whose key another program has written over.
const UnreadableLeader = "unreadable"

// ReadLeader reads the leader key; ok: somebody leads. A value that is no member's id is
// [UnreadableLeader]: it is the lock that makes a leader.
func (k Keys) ReadLeader(e store.Entry) (id string, ok bool, err error) {
	if e.Session == "" {
		return "", false, nil
	}
	id = string(e.Value)
	if CheckID("leader's id", id) != nil {
		return UnreadableLeader, true, store.Invalid("leader", "its value is no member's id")
	}
	return id, true, nil
}

// ReadLeaderState reads the key `leader_state`. One that is missing or does not parse says nothing:
// then a successor waits in full for those that are away.
func (k Keys) ReadLeaderState(e store.Entry) (LeaderState, error) {
	if e.CreateIndex == 0 {
		return LeaderState{}, nil
	}
	return ParseLeaderState(e.Value)
}
