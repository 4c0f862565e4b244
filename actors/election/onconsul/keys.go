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

// keys are those of one election.
type keys struct{ root string }

func keysOf(prefix, name string) keys { return keys{prefix + name + "/"} }

func (k keys) candidates() string         { return k.root + "candidates/" }
func (k keys) candidate(id string) string { return k.candidates() + id }
func (k keys) lanes() string              { return k.root + "joins/" }
func (k keys) lane(session string) string { return k.lanes() + session }
func (k keys) state() string              { return k.root + "state/" }
func (k keys) anchor() string             { return k.state() + "election" }
func (k keys) leader() string             { return k.state() + "leader" }
func (k keys) term() string               { return k.state() + "term" }
func (k keys) handover() string           { return k.state() + "handover" }
func (k keys) ended() string              { return k.state() + "ended" }

// holds tells whether a key below the root is the election's own.
func (k keys) holds(key string) bool {
	return strings.HasPrefix(key, k.candidates()) || strings.HasPrefix(key, k.lanes()) ||
		strings.HasPrefix(key, k.state())
}

// record is the value of a candidate and of the leader.
type record struct {
	election.Candidate
	// Round is raised when a leader makes way, so that its record is another one for what arrives
	// late.
	Round int `json:"round,omitempty"`
}

// order is the value of handover.
type order struct {
	To       string        `json:"to"`
	Name     string        `json:"name"`
	HoldBack time.Duration `json:"hold_back"` // nanoseconds
}

// tenure is the value of term: who led last, and how long that one's leadership is to be kept from
// others when it goes without having been given up. Consul keeps a lock-delay in memory only: a
// server that restores a snapshot has forgotten it.
type tenure struct {
	ID        string        `json:"id"`
	Name      string        `json:"name,omitempty"`
	LockDelay time.Duration `json:"lock_delay,omitempty"` // nanoseconds; 0: it was given up
}

// ending is the value of ended.
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

// snapshot is state/ at one moment.
type snapshot struct {
	index  uint64
	anchor uint64      // CreateIndex; 0: there is none
	leader store.Entry // without a Key: none
	term   uint64      // ModifyIndex; 0: there is none
	tenure tenure
	order  *order
	orders uint64 // ModifyIndex of handover; 0: there is none
	ended  *ending
	// endedAt is the ModifyIndex of ended; 0: there is none.
	endedAt uint64
}

// parse reads the keys below state/. What a stranger wrote is taken for what it can only be.
func (k keys) parse(entries []store.Entry, index uint64) snapshot {
	s := snapshot{index: index}
	for _, e := range entries {
		if e.CreateIndex == 0 {
			continue // a read of a missing key
		}
		switch e.Key {
		case k.anchor():
			s.anchor = e.CreateIndex
		case k.leader():
			s.leader = e
		case k.term():
			s.term = e.ModifyIndex
			if json.Unmarshal(e.Value, &s.tenure) != nil {
				s.tenure = tenure{}
			}
		case k.handover():
			s.orders = e.ModifyIndex
			var o order
			if json.Unmarshal(e.Value, &o) == nil && o.To != "" {
				s.order = &o
			}
		case k.ended():
			var end ending
			_ = json.Unmarshal(e.Value, &end) // whoever put it there, it says that it has ended
			s.ended, s.endedAt = &end, e.ModifyIndex
		}
	}
	return s
}

// givenUp writes that the leadership of that term is given up: whoever is next need not wait.
func (k keys) givenUp(s snapshot, id string) store.Op {
	return store.CAS(k.term(), encode(tenure{ID: id}), 0, s.term)
}

// sameTerm is the condition that nobody has taken the leadership, or given it up, since the
// snapshot.
func (k keys) sameTerm(s snapshot) store.Op {
	if s.term == 0 {
		return store.CheckNotExists(k.term())
	}
	return store.CheckIndex(k.term(), s.term)
}

// vacant tells whether nobody holds the leadership.
func (s snapshot) vacant() bool { return s.leader.Session == "" }

// leads returns who does; a record that a stranger wrote over has no name but an ID of its own.
func (s snapshot) leads() election.Candidate {
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

// line is the order in which candidates lead: by priority, then by their coming. Records that are
// not locked, or that cannot be read, are nobody's.
func (k keys) line(entries []store.Entry) []election.Candidate {
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
	line := make([]election.Candidate, len(all))
	for i, p := range all {
		line[i] = p.Candidate
	}
	return line
}
