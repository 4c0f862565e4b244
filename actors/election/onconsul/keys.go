package onconsul

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/store"
)

// keys are the keys of one election.
type keys struct{ root string }

func keysOf(prefix, name string) keys { return keys{prefix + name + "/"} }

func (k keys) candidates() string            { return k.root + "candidates/" }
func (k keys) candidate(id string) string    { return k.candidates() + id }
func (k keys) joins() string                 { return k.root + "joins/" }
func (k keys) joinsOf(session string) string { return k.joins() + session }
func (k keys) state() string                 { return k.root + "state/" }
func (k keys) identity() string              { return k.state() + "election" }
func (k keys) leader() string                { return k.state() + "leader" }
func (k keys) term() string                  { return k.state() + "term" }
func (k keys) handover() string              { return k.state() + "handover" }
func (k keys) ended() string                 { return k.state() + "ended" }
func (k keys) order() string                 { return k.state() + "order" }

// holds tells whether a key below the root belongs to this election.
func (k keys) holds(key string) bool {
	return strings.HasPrefix(key, k.candidates()) || strings.HasPrefix(key, k.joins()) ||
		strings.HasPrefix(key, k.state())
}

// strange tells whether an entry among the election's keys is one that no participant writes.
func (k keys) strange(e store.Entry) bool {
	switch e.Key {
	case k.identity(), k.leader(), k.term(), k.handover(), k.ended(), k.order():
		return false
	}
	if id, ok := strings.CutPrefix(e.Key, k.candidates()); ok {
		r, parsed := parseRecord(e)
		return !parsed || r.ID != id
	}
	session, ok := strings.CutPrefix(e.Key, k.joins())
	return !ok || session != e.Session
}

// within tells whether all keys of this election lie below the candidates, joins or state of
// another election, as its prefix and name make possible. other is the root of that one.
func (k keys) within() (other string, within bool) {
	parts := strings.Split(strings.TrimSuffix(k.root, "/"), "/")
	for i := 2; i < len(parts); i++ {
		switch other = strings.Join(parts[:i], "/"); parts[i] {
		case "candidates", "joins", "state":
			return other, true
		}
	}
	return "", false
}

// record is the value of a candidate's key and of the leader's key.
type record struct {
	election.Candidate
	// Round rises with each release. So the record changes, and a late Take is refused.
	Round int `json:"round,omitempty"`
}

// handOverOrder is the value of the key handover.
type handOverOrder struct {
	To       string        `json:"to"`
	Name     string        `json:"name"`
	HoldBack time.Duration `json:"hold_back"` // nanoseconds
}

// termRecord is the value of the key term. It says who led last, and for how long others wait if
// that leader did not release. Consul keeps a lock-delay in memory only, so a server that restores
// a snapshot has forgotten it.
type termRecord struct {
	ID        string        `json:"id"`
	Name      string        `json:"name,omitempty"`
	LockDelay time.Duration `json:"lock_delay,omitempty"` // nanoseconds; 0: it was given up
}

// ending is the value of the key ended.
type ending struct {
	Deleted bool      `json:"deleted,omitempty"`
	At      time.Time `json:"at"`
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // none of our types can fail
	}
	return data
}

// snapshot is state/ at one index of Consul.
type snapshot struct {
	index       uint64      // of the read
	incarnation uint64      // CreateIndex of the identity key; 0: there is no election
	leader      store.Entry // without a Key: there is none
	term        uint64      // ModifyIndex of the term; 0: there is none
	lastTerm    termRecord
	// order is the ModifyIndex of the key order: somebody has come who leads before others that
	// were there already. 0: nobody ever did.
	order         uint64
	handOver      *handOverOrder
	handOverIndex uint64 // ModifyIndex of handover; 0: there is none
	ended         *ending
	// endedAt is the ModifyIndex of ended; 0: there is none.
	endedAt uint64
}

// parse reads the keys below state/. It accepts whatever a stranger wrote there.
func (k keys) parse(entries []store.Entry, index uint64) snapshot {
	s := snapshot{index: index}
	for _, e := range entries {
		if e.CreateIndex == 0 {
			continue // a read of a missing key
		}
		switch e.Key {
		case k.identity():
			s.incarnation = e.CreateIndex
		case k.leader():
			s.leader = e
		case k.term():
			s.term = e.ModifyIndex
			if json.Unmarshal(e.Value, &s.lastTerm) != nil {
				s.lastTerm = termRecord{}
			}
		case k.order():
			s.order = e.ModifyIndex
		case k.handover():
			s.handOverIndex = e.ModifyIndex
			var o handOverOrder
			if json.Unmarshal(e.Value, &o) == nil && o.To != "" {
				s.handOver = &o
			}
		case k.ended():
			var end ending
			_ = json.Unmarshal(e.Value, &end) // whoever put it there, it says that it has ended
			s.ended, s.endedAt = &end, e.ModifyIndex
		}
	}
	return s
}

// releaseTerm writes into the term that its leader has released: the next leader need not wait.
func (k keys) releaseTerm(s snapshot, released []byte) store.Op {
	return store.CAS(k.term(), released, 0, s.term)
}

// releasedBy is the value of a term that its leader has released.
func releasedBy(id string) []byte { return encode(termRecord{ID: id}) }

// sameTerm is the condition that nobody has taken or released the leadership since the snapshot.
func (k keys) sameTerm(s snapshot) store.Op {
	if s.term == 0 {
		return store.CheckNotExists(k.term())
	}
	return store.CheckIndex(k.term(), s.term)
}

// vacant tells whether nobody holds the leadership.
func (s snapshot) vacant() bool { return s.leader.Session == "" }

// currentLeader returns the leader, or an empty Candidate. A leader whose record a stranger
// overwrote has an ID made of its session.
func (s snapshot) currentLeader() election.Candidate {
	if s.vacant() {
		return election.Candidate{}
	}
	if r, ok := parseRecord(s.leader); ok {
		return r.Candidate
	}
	return election.Candidate{ID: "session " + s.leader.Session,
		Name: "(its record cannot be read)"}
}

func parseRecord(e store.Entry) (record, bool) {
	var r record
	if err := json.Unmarshal(e.Value, &r); err != nil || r.ID == "" {
		return record{}, false
	}
	return r, true
}

// queue returns the candidates in the order in which they lead: by priority, then by creation. It
// leaves out records that no session holds and records that cannot be read.
func (k keys) queue(entries []store.Entry) []election.Candidate {
	type place struct {
		election.Candidate
		came uint64
	}
	var all []place
	for _, e := range entries {
		r, ok := parseRecord(e)
		if id, under := strings.CutPrefix(e.Key, k.candidates()); !ok || !under || id != r.ID ||
			e.Session == "" {
			continue
		}
		all = append(all, place{r.Candidate, e.CreateIndex})
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.came, b.came))
	})
	candidates := make([]election.Candidate, len(all))
	for i, p := range all {
		candidates[i] = p.Candidate
	}
	return candidates
}
