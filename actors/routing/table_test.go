package routing_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// world is Consul's keys as a test writes them, at an index that rises with each write.
type world struct {
	keys    protocol.Keys
	index   uint64
	entries map[string]store.Entry
	changed map[string]uint64 // prefix -> the index of its last change, deletes included
}

func newWorld(t testing.TB) *world {
	t.Helper()
	keys, err := protocol.KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	return &world{keys: keys, index: 10, entries: map[string]store.Entry{},
		changed: map[string]uint64{}}
}

// write puts keys in place, or with a nil value deletes them, in one transaction.
func (w *world) write(session string, kvs map[string][]byte) uint64 {
	w.index++
	for key, value := range kvs {
		if value == nil {
			delete(w.entries, key)
		} else {
			e, ok := w.entries[key]
			if !ok {
				e = store.Entry{Key: key, CreateIndex: w.index}
			}
			e.Value, e.ModifyIndex = value, w.index
			if session != "" && w.isMember(key) {
				e.Session = session
			}
			w.entries[key] = e
		}
		w.changed[prefixOf(key)] = w.index
	}
	return w.index
}

// set is write for one key.
func (w *world) set(key string, value []byte) uint64 {
	return w.write("", map[string][]byte{key: value})
}

func (w *world) isMember(key string) bool { _, ok := w.keys.ParseMember(key); return ok }

func prefixOf(key string) string {
	for i := len(key) - 1; ; i-- {
		if key[i] == '/' {
			return key[:i+1]
		}
	}
}

// view is what a read of a prefix answers now.
func (w *world) view(prefix string) store.View {
	v := store.View{Index: max(1, w.changed[prefix])}
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		if prefixOf(key) == prefix {
			v.Entries = append(v.Entries, w.entries[key])
		}
	}
	return v
}

func (w *world) register(m, session string, clear bool) uint64 {
	w.set(w.keys.Member(m), nil)
	return w.write(session, map[string][]byte{
		w.keys.Member(m): protocol.MemberRecord{Status: protocol.StatusAlive,
			Address: m + ":80"}.Encode(),
		w.keys.Ack(m): protocol.Ack{Session: session, Clear: clear, Counter: w.index}.Encode(),
		// The sentinel is new with each registration.
		w.keys.AssignmentsOf(m): []byte(session),
	})
}

func (w *world) grant(item, m, session string) uint64 {
	return w.set(w.keys.Assignment(m, item), protocol.Assignment{State: protocol.StateOwn,
		Session: session}.Encode())
}

// fold gives a table everything as it is now.
func (w *world) fold(t *routing.Table, gen int, now time.Time) {
	t.Members(w.view(w.keys.Members()), gen, now)
	t.Acks(w.view(w.keys.Acks()), gen)
	for _, id := range t.Roster() {
		t.Share(id, w.view(w.keys.AssignmentsOf(id)), gen, now)
	}
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// setting is a table that has read a world with n1 and n2, both registered.
func setting(t *testing.T) (*world, *routing.Table, int) {
	w := newWorld(t)
	w.register("n1", "s1", true)
	w.register("n2", "s2", true)
	table := routing.NewTable(w.keys, 9*time.Second)
	gen := table.Begin(start)
	w.fold(table, gen, start)
	return w, table, gen
}

func expect(t *testing.T, table *routing.Table, item, want string) routing.Location {
	t.Helper()
	loc, got := table.Look(item, start)
	if got != want {
		t.Errorf("item %q is %s at %+v, want %s", item, got, loc, want)
	}
	return loc
}

func TestTheGrantIsTheLargerIndexOfTheKeyAndTheRecord(t *testing.T) {
	w, table, gen := setting(t)
	created := w.grant("a", "n1", "s1")
	w.fold(table, gen, start)
	if loc := expect(t, table, "a", "owned"); loc != (routing.Location{Member: "n1",
		Address: "n1:80", Grant: created}) {
		t.Errorf("%+v", loc)
	}
	// restarted: what it has is inherited, under a larger grant
	record := w.register("n1", "s1b", true)
	w.fold(table, gen, start)
	if loc := expect(t, table, "a", "owned"); loc.Grant != record {
		t.Errorf("%+v, want grant %d", loc, record)
	}
}

func TestWhatMayNotBeWorkedOnHasNoOwner(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"the key says rel": func(w *world) {
			w.set(w.keys.Assignment("n1", "a"), protocol.Assignment{State: protocol.StateRel,
				Session: "s1"}.Encode())
		},
		"its member is leaving": func(w *world) {
			w.set(w.keys.Member("n1"), protocol.MemberRecord{Status: protocol.StatusLeaving,
				Address: "n1:80"}.Encode())
		},
		"its member runs nothing": func(w *world) {
			w.set(w.keys.Member("n1"), protocol.MemberRecord{Status: protocol.StatusAlive,
				Idle: true}.Encode())
		},
		"its member's record has just gone": func(w *world) { w.set(w.keys.Member("n1"), nil) },
		"its member is being restarted, and they wait for it": func(w *world) {
			w.write("", map[string][]byte{w.keys.Member("n1"): nil,
				w.keys.Ack("n1"): protocol.Ack{Session: "s1", Clear: true, Stopped: true,
					Keep: time.Minute}.Encode()})
		},
		"inherited, a predecessor may live": func(w *world) { w.register("n1", "s1b", false) },
		"inherited, and clear by another session's word": func(w *world) {
			w.register("n1", "s1b", false)
			w.set(w.keys.Ack("n1"), protocol.Ack{Session: "s1", Clear: true}.Encode())
		},
		"granted to a session that is over": func(w *world) {
			w.set(w.keys.Assignment("n1", "a"), nil)
			w.register("n1", "s1b", true)
			w.grant("a", "n1", "s1")
		},
		"released": func(w *world) { w.set(w.keys.Assignment("n1", "a"), nil) },
		"a key that does not parse": func(w *world) {
			w.set(w.keys.Assignment("n1", "a"), nil)
			w.set(w.keys.Assignment("n1", "a"), []byte("?"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, table, gen := setting(t)
			w.grant("a", "n1", "s1")
			w.fold(table, gen, start)
			expect(t, table, "a", "owned")
			do(w)
			w.fold(table, gen, start)
			expect(t, table, "a", "moving")
		})
	}
}

// The views of the records and of the shares are of different moments: a member that said goodbye
// is seen without its record before its share is seen without its items.
func TestTheItemsOfAMemberThatHasJustGoneAreBeingMoved(t *testing.T) {
	w, table, gen := setting(t)
	w.grant("a", "n1", "s1")
	w.fold(table, gen, start)
	w.write("", map[string][]byte{w.keys.Member("n1"): nil, w.keys.Assignment("n1", "a"): nil})
	table.Members(w.view(w.keys.Members()), gen, start)
	for after, want := range map[time.Duration]string{0: "moving", 999 * time.Millisecond: "moving",
		time.Second: "ownerless"} {
		if _, got := table.Look("a", start.Add(after)); got != want {
			t.Errorf("after %v it is %s, want %s", after, got, want)
		}
	}
	w.register("n1", "s1b", true)
	w.grant("a", "n1", "s1b")
	w.fold(table, gen, start)
	expect(t, table, "a", "owned")
}

func TestOfTwoKeysTheOneCreatedLaterCounts(t *testing.T) {
	w, table, gen := setting(t)
	w.grant("a", "n1", "s1")
	w.fold(table, gen, start)
	// Reaped and granted to n2; n1 is back under a record with a larger index; of n1's share there
	// is only the old view.
	w.set(w.keys.Assignment("n1", "a"), nil)
	created := w.grant("a", "n2", "s2")
	w.register("n1", "s1b", true)
	table.Members(w.view(w.keys.Members()), gen, start)
	table.Acks(w.view(w.keys.Acks()), gen)
	expect(t, table, "a", "moving") // n1's share is older than its record
	table.Share("n2", w.view(w.keys.AssignmentsOf("n2")), gen, start)
	if loc := expect(t, table, "a", "owned"); loc.Member != "n2" || loc.Grant != created {
		t.Errorf("%+v", loc)
	}
	w.fold(table, gen, start)
	expect(t, table, "a", "owned")
}

func TestAKeyThatHasGoneIsAMoveForAWhileAndThenNoKey(t *testing.T) {
	w, table, gen := setting(t)
	w.grant("a", "n1", "s1")
	w.fold(table, gen, start)
	w.set(w.keys.Assignment("n1", "a"), nil)
	w.fold(table, gen, start)
	expect(t, table, "a", "moving")
	table.Beat(start.Add(9*time.Second), 0, w.view(w.keys.Acks()).Index, 0)
	for after, want := range map[time.Duration]string{9999 * time.Millisecond: "moving",
		10 * time.Second: "keyless"} {
		if _, got := table.Look("a", start.Add(after)); got != want {
			t.Errorf("after %v it is %s, want %s", after, got, want)
		}
	}
	expect(t, table, "never-heard-of", "keyless")
}

func TestNothingIsSaidBeforeAllHasBeenReadOnce(t *testing.T) {
	w := newWorld(t)
	w.register("n1", "s1", true)
	w.register("n2", "s2", true)
	w.grant("a", "n1", "s1")
	table := routing.NewTable(w.keys, 9*time.Second)
	expect(t, table, "a", "stale")
	gen := table.Begin(start)
	table.Members(w.view(w.keys.Members()), gen, start)
	table.Acks(w.view(w.keys.Acks()), gen)
	table.Share("n1", w.view(w.keys.AssignmentsOf("n1")), gen, start)
	expect(t, table, "a", "stale")
	table.Share("n2", w.view(w.keys.AssignmentsOf("n2")), gen, start)
	expect(t, table, "a", "owned")
	// Later a joiner's share keeps nobody from being located; of others it cannot be told.
	w.register("n3", "s3", true)
	table.Members(w.view(w.keys.Members()), gen, start)
	expect(t, table, "a", "owned")
	expect(t, table, "b", "unread")
}

func TestTheTableIsAsOldAsTheLastPulseThatItsWatchKeptUpWith(t *testing.T) {
	w, table, gen := setting(t)
	w.grant("a", "n1", "s1")
	w.fold(table, gen, start)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	acks := func() uint64 { return w.view(w.keys.Acks()).Index }
	members := func() uint64 { return w.view(w.keys.Members()).Index }
	table.Beat(at(5*time.Second), members(), acks(), acks())
	if got := table.AsOf(); !got.Equal(at(5 * time.Second)) {
		t.Errorf("as of %v", got)
	}
	if _, got := table.Look("a", at(13*time.Second)); got != "owned" {
		t.Errorf("8 s after the pulse: %s", got)
	}
	if _, got := table.Look("a", at(14*time.Second)); got != "stale" {
		t.Errorf("9 s after the pulse: %s", got)
	}
	// A pulse sees a release that the watch has not brought.
	known := acks()
	raised := protocol.Ack{Session: "s1", Clear: true, Counter: 99}.Encode()
	w.write("", map[string][]byte{w.keys.Assignment("n1", "a"): nil, w.keys.Ack("n1"): raised})
	if behind, rewound := table.Beat(at(7*time.Second), members(), acks(), known); behind ||
		rewound {
		t.Error("one pulse is no proof: the watch may be about to bring it")
	}
	if got := table.AsOf(); !got.Equal(at(5 * time.Second)) {
		t.Errorf("as of %v, and what the pulse saw has not come", got)
	}
	if behind, _ := table.Beat(at(9*time.Second), members(), acks(), known); !behind {
		t.Error("nor has it by the next pulse")
	}
	// Everything is read anew. Until it is the table is as old as it was.
	next := table.Begin(at(9 * time.Second))
	table.Beat(at(10*time.Second), members(), acks(), known)
	if got := table.AsOf(); !got.Equal(at(5 * time.Second)) {
		t.Errorf("as of %v before anything was read anew", got)
	}
	w.fold(table, next, at(11*time.Second))
	if got := table.AsOf(); !got.Equal(at(10 * time.Second)) {
		t.Errorf("as of %v after everything was", got)
	}
	if _, rewound := table.Beat(at(12*time.Second), members(), 3, acks()); !rewound {
		t.Error("an index that went back was not noticed")
	}
}

// A release and a registration write to acks/; a session that ends, and a reap, do not.
func TestTheTableIsNoYoungerThanTheViewsThatAPulseSpeaksOf(t *testing.T) {
	w, table, gen := setting(t)
	w.grant("a", "n1", "s1")
	w.fold(table, gen, start)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	members := func() store.View { return w.view(w.keys.Members()) }
	acks := func() store.View { return w.view(w.keys.Acks()) }
	expectAsOf := func(want time.Duration, why string) {
		t.Helper()
		if got := table.AsOf(); !got.Equal(at(want)) {
			t.Errorf("as of %v, want %v: %s", got.Sub(start), want, why)
		}
	}
	// n1 releases a; the watch of acks/ brings it, that of n1's share does not.
	raised := protocol.Ack{Session: "s1", Clear: true, Counter: 99}.Encode()
	w.write("", map[string][]byte{w.keys.Assignment("n1", "a"): nil, w.keys.Ack("n1"): raised})
	table.Acks(acks(), gen)
	table.Beat(at(2*time.Second), members().Index, acks().Index, acks().Index)
	expectAsOf(0, "n1's share is older than its ack")
	table.Share("n2", w.view(w.keys.AssignmentsOf("n2")), gen, start)
	expectAsOf(0, "n2's share says nothing of n1's")
	table.Share("n1", w.view(w.keys.AssignmentsOf("n1")), gen, start)
	expectAsOf(2*time.Second, "all has been seen")
	// Only the ack is raised: no view of the share is ever as new. One that was asked for later is.
	w.set(w.keys.Ack("n1"), protocol.Ack{Session: "s1", Clear: true, Counter: 100}.Encode())
	table.Acks(acks(), gen)
	table.Beat(at(4*time.Second), members().Index, acks().Index, acks().Index)
	expectAsOf(2*time.Second, "n1's share may be older than its ack")
	table.ShareAfter("n1", w.view(w.keys.AssignmentsOf("n1")), gen, start, w.index)
	expectAsOf(4*time.Second, "n1's share was read after its ack")
	// n2's session ends.
	w.set(w.keys.Member("n2"), nil)
	if behind, _ := table.Beat(at(6*time.Second), w.index, acks().Index, acks().Index); behind {
		t.Error("one pulse is no proof: the watch may be about to bring it")
	}
	expectAsOf(4*time.Second, "the members have not been seen as they were at the pulse")
	if behind, _ := table.Beat(at(8*time.Second), w.index, acks().Index, acks().Index); !behind {
		t.Error("nor have they by the next pulse")
	}
	v := members()
	v.Index = w.index
	table.Members(v, gen, start)
	expectAsOf(6*time.Second, "now they have")
}

func TestAShareOlderThanItsMembersAckIsASuspect(t *testing.T) {
	w, table, gen := setting(t)
	w.grant("a", "n1", "s1")
	w.fold(table, gen, start)
	if late := table.Laggards(); len(late) != 0 {
		t.Errorf("suspects %v", late)
	}
	w.write("", map[string][]byte{w.keys.Assignment("n1", "a"): nil,
		w.keys.Ack("n1"): protocol.Ack{Session: "s1", Clear: true, Counter: 99}.Encode()})
	table.Acks(w.view(w.keys.Acks()), gen)
	if late := table.Laggards(); !maps.Equal(late, map[string]uint64{"n1": w.index}) {
		t.Errorf("suspects %v", late)
	}
}

func TestAMemberIsWatchedForAsLongAsItHasARecordOrItems(t *testing.T) {
	w, table, gen := setting(t)
	w.grant("a", "n1", "s1")
	w.fold(table, gen, start)
	w.write("", map[string][]byte{w.keys.Member("n1"): nil, w.keys.Member("n2"): nil})
	w.fold(table, gen, start)
	if got := table.Roster(); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("watched: %v", got)
	}
	w.set(w.keys.Assignment("n1", "a"), nil)
	w.fold(table, gen, start)
	if got := table.Roster(); len(got) != 0 {
		t.Errorf("watched: %v", got)
	}
	table.Forget("n1", start)
	expect(t, table, "a", "moving")
}
