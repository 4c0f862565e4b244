package onzk

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
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

// fate is what has become of an election: the data of its node. Whatever does not parse means open.
type fate struct {
	State string `json:"state,omitempty"`
	// ID is in the name of a child that is there as long as the election. A request that has waited
	// for a connection may find another election of the same name, with nodes of the same versions:
	// ZooKeeper has no condition on a zxid. Empty: made by an older version.
	ID string `json:"id,omitempty"`
}

// identity is the name of that child; empty: there is none.
func identity(data []byte) string {
	var f fate
	if json.Unmarshal(data, &f) != nil || f.ID == "" ||
		strings.Contains(f.ID, "/") || unfit(f.ID) != "" {
		return ""
	}
	return "_e_" + f.ID
}

// become is the data with another state.
func become(data []byte, state string) []byte {
	var f fate
	_ = json.Unmarshal(data, &f)
	f.State = state
	return encode(f)
}

// ephemeral tells whether a node goes with a session. Those of the two containers' kinds have
// owners that are no sessions.
func ephemeral(stat *zk.Stat) bool {
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != math.MinInt64
}

// unfit says what ZooKeeper refuses in a path, of what may be in one; empty: nothing. See PathUtils
// in its source: it counts in UTF-16.
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

func parseFate(data []byte) (ended, deleted bool) {
	var f fate
	_ = json.Unmarshal(data, &f)
	return f.State == stateEnded || f.State == stateDeleted, f.State == stateDeleted
}

// over is the error for an election that nobody can join any more.
func over(data []byte) error {
	switch ended, deleted := parseFate(data); {
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

// termRecord is the data of the term's node: who led last and, as in Consul, for how long that
// one's leadership is kept from others if it goes without having been given up. It is the leader's
// own setting: the others need not know how long its lease may run.
type termRecord struct {
	ID        string `json:"id"`
	LockDelay string `json:"lockDelay"`
}

// MaxLockDelay bounds Config.LockDelay.
const MaxLockDelay = time.Hour

// lockDelayOf returns the delay that the last leader asked for; of a record that is none of ours it
// is otherwise.
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

// yieldRecord is the data of the node that keeps the leadership free for somebody.
type yieldRecord struct {
	To   string `json:"to"`
	Name string `json:"name,omitempty"`
}

// guidOf makes of a candidate's id the protection of its node's name, in the form that ZooKeeper's
// clients use. It is the same for each attempt, so that a create whose reply was lost is found;
// those of CreateProtectedEphemeralSequential are new each time, and it goes on in another session
// without a word when the first one is lost.
func guidOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

func candidateName(id string, priority int) string {
	return fmt.Sprintf("_c_%s-p%d-n", guidOf(id), priority)
}

// A sequence has ten digits; it is a signed 32-bit number that goes on with the negative ones.
var candidatePattern = regexp.MustCompile(`^_c_([0-9a-f]{32})-p(-?[0-9]+)-n(-?[0-9]{10})$`)

// place is a candidate's node by its name.
type place struct {
	node     string
	guid     string
	priority int
	sequence int32
}

// queue returns the candidates among the children, the next one to lead first. What is no
// candidate's name is passed over.
func queue(children []string) []place {
	var all []place
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
		all = append(all, place{node: name, guid: m[1], priority: priority,
			sequence: int32(sequence)})
	}
	slices.SortFunc(all, func(a, b place) int {
		if c := cmp.Compare(b.priority, a.priority); c != 0 {
			return c
		}
		// By their difference, not by their size, and not by name: after 2147483647 comes
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
