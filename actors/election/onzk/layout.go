package onzk

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

// The children of an election's node beside the candidates.
const (
	leaderNode = "leader"
	termNode   = "term"
	yieldNode  = "yield"
)

// electionRecord is the data of the election's node. Data that cannot be parsed means open.
type electionRecord struct {
	State string `json:"state,omitempty"`
	// ID is part of the name of a child that lives as long as the election. ZooKeeper has no
	// condition on a zxid. So a request that has waited for a connection could hit another election
	// of the same name, whose nodes have the same versions; the child's name prevents that. Empty:
	// made by an older version, or by hand; see identify.
	ID string `json:"id,omitempty"`
}

// identityPrefix begins the name of that child.
const identityPrefix = "_e_"

// identity returns the name of that child; empty: there is none.
func identity(data []byte) string {
	var f electionRecord
	if json.Unmarshal(data, &f) != nil || f.ID == "" ||
		strings.Contains(f.ID, "/") || unfit(f.ID) != "" {
		return ""
	}
	return identityPrefix + f.ID
}

// isRecord tells whether the data is that of an election with an identity, and nothing else's that
// has an id as well.
func isRecord(data []byte) bool {
	var f electionRecord
	return identity(data) != "" && json.Unmarshal(data, &f) == nil &&
		bytes.Equal(encode(f), data)
}

// withState returns the data with another state.
func withState(data []byte, state string) []byte {
	var f electionRecord
	_ = json.Unmarshal(data, &f)
	f.State = state
	return encode(f)
}

// withID returns the data with another identity.
func withID(data []byte, id string) []byte {
	var f electionRecord
	_ = json.Unmarshal(data, &f)
	f.ID = id
	return encode(f)
}

// ephemeral tells whether a node is deleted with a session. The owner of a container node is no
// session. That of a node with a time to live is none either, but looks like one: 0xff in the first
// byte, zeros, and the time in 40 bits. A session has its server's id in the first byte, 40 bits of
// milliseconds since the machine's start and a counter of 16 bits. So within 4.7 hours of that
// start those of a server with the id 255, which may have it where there are no times to live, look
// alike.
func ephemeral(stat *zk.Stat) bool {
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != math.MinInt64
}

// unfit returns the first character that ZooKeeper refuses in a path; empty: there is none. See
// PathUtils in ZooKeeper's source, which counts in UTF-16.
func unfit(element string) string {
	for _, r := range element {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return fmt.Sprintf("%q", r)
		}
	}
	return ""
}

const (
	stateEnded   = "ended"
	stateDeleted = "deleted" // being deleted
)

func parseEnded(data []byte) (ended, deleted bool) {
	var f electionRecord
	_ = json.Unmarshal(data, &f)
	return f.State == stateEnded || f.State == stateDeleted, f.State == stateDeleted
}

// endedError returns ErrEnded or ErrDeleted if the election has ended, else nil.
func endedError(data []byte) error {
	switch ended, deleted := parseEnded(data); {
	case deleted:
		return election.ErrDeleted
	case ended:
		return election.ErrEnded
	}
	return nil
}

// leaderRecord is the data of the leader's node.
type leaderRecord struct {
	election.Candidate
	Yield string `json:"yield,omitempty"` // the id of whom the leader is asked to make way for
}

// termRecord is the data of the term's node. It says who led last, and for how long others wait if
// that leader did not release. The leader sets this lock-delay itself: the others need not know how
// long its lease may run.
type termRecord struct {
	ID        string `json:"id"`
	LockDelay string `json:"lockDelay"`
}

// MaxLockDelay bounds Config.LockDelay.
const MaxLockDelay = time.Hour

// lockDelayOf returns the lock-delay of the last leader, or otherwise if the record cannot be read.
func lockDelayOf(term []byte, otherwise time.Duration) time.Duration {
	var r termRecord
	if len(term) == 0 {
		return 0
	}
	if json.Unmarshal(term, &r) == nil {
		if d, err := time.ParseDuration(r.LockDelay); err == nil && d >= 0 && d <= MaxLockDelay {
			return d
		}
	}
	return otherwise
}

// holderOf returns the id of the last leader; empty: the record cannot be read.
func holderOf(term []byte) string {
	var r termRecord
	_ = json.Unmarshal(term, &r)
	return r.ID
}

// yieldRecord is the data of the node yield: the candidate of a hand-over, and for how long the
// others wait for it.
type yieldRecord struct {
	To       string `json:"to"`
	Name     string `json:"name,omitempty"`
	HoldBack string `json:"holdBack,omitempty"`
}

// holdBack returns for how long the others wait, or otherwise if the order does not say so.
func (y yieldRecord) holdBack(otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(y.HoldBack); err == nil && d >= 0 {
		return min(d, election.MaxHoldBack)
	}
	return otherwise
}

// guidOf makes the guid in the name of a candidate's node from the candidate's id, in the form that
// ZooKeeper's clients use. It is the same for each attempt, so a create whose reply was lost is
// found. CreateProtectedEphemeralSequential does not serve: its guids are new each time, and after
// a lost session it silently goes on in another one.
func guidOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

func candidateName(id string, priority int) string {
	return fmt.Sprintf("_c_%s-p%d-n", guidOf(id), priority)
}

// A sequence has ten digits, or a sign and nine. It is a signed 32-bit number: after the largest
// one it goes on with the negative ones, of which the smallest have a sign and ten.
var candidatePattern = regexp.MustCompile(
	`^_c_([0-9a-f]{32})-p(-?[0-9]+)-n(-[0-9]{9}|-?[0-9]{10})$`)

// isCandidate tells whether a path is that of a candidate's node. Such a name is never used twice,
// because of its number.
func isCandidate(node string) bool { return candidatePattern.MatchString(path.Base(node)) }

// queueEntry is what the name of a candidate's node says.
type queueEntry struct {
	node     string
	guid     string
	priority int
	sequence int32
}

// queue returns the candidates among the children in the order in which they lead. It ignores other
// names.
func queue(children []string) []queueEntry {
	var all []queueEntry
	for _, name := range children {
		m := candidatePattern.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		priority, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		sequence, err := strconv.ParseInt(m[3], 10, 32)
		if err != nil {
			continue
		}
		all = append(all, queueEntry{node: name, guid: m[1], priority: priority,
			sequence: int32(sequence)})
	}
	slices.SortFunc(all, func(a, b queueEntry) int {
		if c := cmp.Compare(b.priority, a.priority); c != 0 {
			return c
		}
		// The difference decides, not the size and not the name: after 2147483647 comes
		// -2147483648.
		return cmp.Compare(a.sequence-b.sequence, 0)
	})
	return all
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("onzk: %v", err)) // of structs of strings and numbers: only by a bug
	}
	return data
}
