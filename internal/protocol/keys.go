package protocol

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coordd/coordd/internal/store"
)

// MaxIDBytes bounds member and item ids.
const MaxIDBytes = 256

// Keys names the keys of one service. The zero value is of no use: see
// [KeysOf]. Methods that take an id do not check it: check where it enters,
// with [CheckID].
type Keys struct {
	service string
	root    string
}

// KeysOf returns the keys under service/<service>/. The name may hold letters,
// digits, ". _ - ~ : @ +" and inner slashes; anything else is [store.ErrInvalid].
func KeysOf(service string) (Keys, error) {
	op := fmt.Sprintf("service %q", service)
	switch {
	case service == "":
		return Keys{}, store.Invalid("service", "the name is empty; give the service a name")
	case len(service) > MaxIDBytes:
		return Keys{}, store.Invalid("service", "the name has %d bytes; at most %d", len(service),
			MaxIDBytes)
	case strings.Contains(service, "/"):
		// Service x/workload would have its leader key where x has an item named leader.
		return Keys{}, store.Invalid(op,
			`it holds a slash, so that one service could lie inside another; use "-" or "."`)
	}
	for _, r := range service {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-~:@+", r) ||
			r == utf8.RuneError {
			return Keys{}, store.Invalid(op, "it holds %q; use letters, digits and ._-~:@+", r)
		}
	}
	if err := store.CheckKey(op, service); err != nil {
		return Keys{}, err
	}
	return Keys{service: service, root: "service/" + service + "/"}, nil
}

// CheckMemberID checks a member's id where it enters: as [CheckID], and without space, percent sign
// and two dots in a row. So every id of an item makes a key with every id of a member: Consul
// refuses a key that holds a space or two dots when percent escapes are taken out of the whole of
// it.
func CheckMemberID(id string) error {
	if err := CheckID("member id", id); err != nil {
		return err
	}
	if strings.ContainsAny(id, " %") || strings.Contains(id, "..") {
		return store.Invalid(fmt.Sprintf("member id %q", id),
			"it holds a space, a percent sign or two dots in a row, with which it makes no key "+
				`together with some items' ids; use "-"`)
	}
	return nil
}

// CheckID checks a member or item id where it enters: not empty, no "/", valid UTF-8 without
// control characters and U+FFFD, no space at either end, not "." or "..", at most [MaxIDBytes]
// bytes, and nothing that Consul's own check of key names would refuse later (percent escapes of a
// space or of ".."). Kind, such as "item id", begins the message of the [store.ErrInvalid].
func CheckID(kind, id string) error {
	switch {
	case id == "":
		return store.Invalid(kind, "it is empty")
	case len(id) > MaxIDBytes:
		return store.Invalid(kind, "it has %d bytes; at most %d", len(id), MaxIDBytes)
	case strings.Contains(id, "/"):
		return store.Invalid(named(kind, id), "it holds a slash, which separates keys")
	case strings.TrimSpace(id) != id:
		return store.Invalid(named(kind, id), "remove the space at its beginning or end")
	}
	return naming(store.CheckKey, kind, id)
}

// naming names the id in the error of a check. Who reads 100,000 ids names none of them.
func naming(check func(op, key string) error, kind, id string) error {
	if check(kind, id) == nil {
		return nil
	}
	return check(named(kind, id), id)
}

func named(kind, id string) string {
	return fmt.Sprintf("%s %q", kind, id)
}

// Service returns the name the keys were made of.
func (k Keys) Service() string { return k.service }

// Root returns the prefix of everything: service/<service>/.
func (k Keys) Root() string { return k.root }

// Leader returns the key that is locked by the leader.
func (k Keys) Leader() string { return k.root + "leader" }

// Term returns the key that says who took the leadership last: see [Term].
func (k Keys) Term() string { return k.root + "term" }

// LeaderState returns the key of a [LeaderState].
func (k Keys) LeaderState() string { return k.root + "leader_state" }

// Members returns the prefix of the member records.
func (k Keys) Members() string { return k.root + "members/" }

// Member returns the key of the record of member m, locked by its session.
func (k Keys) Member(m string) string { return k.Members() + m }

// Workload returns the prefix of the work items.
func (k Keys) Workload() string { return k.root + "workload/" }

// WorkItem returns the key of work item w.
func (k Keys) WorkItem(w string) string { return k.Workload() + w }

// Assignments returns the prefix of all assignments: read it once in a
// leadership, never watch it.
func (k Keys) Assignments() string { return k.root + "assignments/" }

// AssignmentsOf returns the prefix of the assignments of member m. It is also
// the key of the sentinel that keeps m's watch from being woken by others.
func (k Keys) AssignmentsOf(m string) string { return k.Assignments() + m + "/" }

// Assignment returns the key of item w at member m.
func (k Keys) Assignment(m, w string) string { return k.AssignmentsOf(m) + w }

// Acks returns the prefix of the members' counters.
func (k Keys) Acks() string { return k.root + "acks/" }

// Ack returns the key of the counter of member m.
func (k Keys) Ack(m string) string { return k.Acks() + m }

// Sequence returns the key of a writer's counter, which makes its transactions take effect once at
// most. Nobody watches them.
func (k Keys) Sequence(name string) string { return k.root + "sequence/" + name }

// SequenceOf returns one of 16 sequence keys of a kind, always the same for a name: for writers of
// many names, of which those that share a key try again when they meet.
func (k Keys) SequenceOf(kind, name string) string { return k.oneOf(16, kind, name) }

// JoinSequence returns the sequence key of a member's registrations, one of 256. All members of a
// service may register at one moment, and of those that share a key one is accepted at a time.
func (k Keys) JoinSequence(m string) string { return k.oneOf(256, "join", m) }

func (k Keys) oneOf(n uint32, kind, name string) string {
	f := fnv.New32a()
	f.Write([]byte(name))
	return k.Sequence(kind + "/" + strconv.Itoa(int(f.Sum32()%n)))
}

// ParseMember returns the member of a key under Members. Keys that are not of
// that form, foreign ones among them, are not ok: skip them.
func (k Keys) ParseMember(key string) (m string, ok bool) { return parseID(key, k.Members()) }

// ParseWorkItem returns the item of a key under Workload.
func (k Keys) ParseWorkItem(key string) (w string, ok bool) { return parseID(key, k.Workload()) }

// ParseAck returns the member of a key under Acks.
func (k Keys) ParseAck(key string) (m string, ok bool) { return parseID(key, k.Acks()) }

// ParseAssignment returns member and item of a key under Assignments. The
// sentinel of a member is ok with an empty item.
func (k Keys) ParseAssignment(key string) (m, w string, ok bool) {
	rest, ok := strings.CutPrefix(key, k.Assignments())
	if !ok {
		return "", "", false
	}
	m, w, ok = strings.Cut(rest, "/")
	if !ok || CheckID("member id", m) != nil {
		return "", "", false
	}
	if w != "" && (CheckID("item id", w) != nil || store.CheckKey("", key) != nil) {
		return "", "", false
	}
	return m, w, true
}

func parseID(key, prefix string) (string, bool) {
	id, ok := strings.CutPrefix(key, prefix)
	if !ok || CheckID("id", id) != nil {
		return "", false
	}
	return id, true
}
