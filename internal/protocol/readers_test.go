package protocol_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

const (
	uuid      = "0d8f3a2e-0000-4000-8000-000000000000"
	anyError  = "*"
	heldBy    = uuid
	byNobody  = ""
	farTooBig = `{"n":18446744073709551616}`
)

// reading is an entry, below the service's root, and what its reader makes of it.
type reading[T any] struct {
	key, value, session string
	want                T
	ok                  bool
	says                string // a part of the error; empty: none; anyError: whatever it says
}

func check[T any](t *testing.T, read func(store.Entry) (T, bool, error), all []reading[T]) {
	t.Helper()
	for _, r := range all {
		e := store.Entry{Key: "service/svc/" + r.key, Value: []byte(r.value), Session: r.session,
			CreateIndex: 7, ModifyIndex: 8}
		got, ok, err := read(e)
		if ok != r.ok || !reflect.DeepEqual(got, r.want) {
			t.Errorf("%s = %q: got %+v, %v; want %+v, %v", r.key, r.value, got, ok, r.want, r.ok)
		}
		switch {
		case r.says == "" && err == nil, r.says == anyError && err != nil:
		case r.says == "" || err == nil || !strings.Contains(err.Error(), r.says):
			t.Errorf("%s = %q: error %v, want %q", r.key, r.value, err, r.says)
		}
		var yielded, named int
		for range protocol.Read([]store.Entry{e}, read, func(store.Entry, string) { named++ }) {
			yielded++
		}
		if yielded != map[bool]int{true: 1}[ok] || named != map[bool]int{true: 1}[err != nil] {
			t.Errorf("%s = %q: Read yields %d and names %d", r.key, r.value, yielded, named)
		}
	}
}

func TestAMembersRecordCountsWhileASessionLocksIt(t *testing.T) {
	alive := protocol.MemberRecord{Status: protocol.StatusAlive}
	unreadable := protocol.Member{ID: "m1", Unreadable: true}
	check(t, keysOf(t, "svc").ReadMember, []reading[protocol.Member]{
		{"members/m1", "alive", heldBy, protocol.Member{ID: "m1", MemberRecord: alive}, true, ""},
		{"members/m1", " leaving\n", heldBy, protocol.Member{ID: "m1",
			MemberRecord: protocol.MemberRecord{Status: protocol.StatusLeaving}}, true, ""},
		{"members/m1", `{"status":"alive","later":{}}`, heldBy,
			protocol.Member{ID: "m1", MemberRecord: alive}, true, ""},
		{"members/m1", `{"status":"asleep"}`, heldBy, unreadable, true, "asleep"},
		{"members/m1", "{garbage", heldBy, unreadable, true, "does not parse"},
		{"members/m1", "", heldBy, unreadable, true, "not a JSON object"},
		{"members/m1", "alive", byNobody, protocol.Member{}, false, "not locked"},
		{"members/a/b", "alive", heldBy, protocol.Member{}, false, "no member id"},
		{"acks/m1", "alive", heldBy, protocol.Member{}, false, "no member id"},
		{"members/", "", byNobody, protocol.Member{}, false, ""},
		{"members/folder/", "", byNobody, protocol.Member{}, false, ""},
	})
}

func TestAnAckThatDoesNotParseIsNotClearAndStillSaysLookAgain(t *testing.T) {
	unreadable := protocol.MemberAck{Member: "m1", Unreadable: true}
	check(t, keysOf(t, "svc").ReadAck, []reading[protocol.MemberAck]{
		{"acks/m1", "12\n", byNobody, protocol.MemberAck{Member: "m1",
			Ack: protocol.Ack{Counter: 12}}, true, ""},
		{"acks/m1", `{"n":3,"clear":true,"later":1}`, byNobody, protocol.MemberAck{Member: "m1",
			Ack: protocol.Ack{Counter: 3, Clear: true}}, true, ""},
		{"acks/m1", `{"n":3,"clear":true,"ttl":1999999999}`, byNobody, unreadable, true, "ttl"},
		{"acks/m1", `{"n":3,"clear":true,"ttl":-1}`, byNobody, unreadable, true, "ttl"},
		{"acks/m1", `{"n":3,"clear":true,"sid":"x y"}`, byNobody, unreadable, true, "session"},
		{"acks/m1", farTooBig, byNobody, unreadable, true, "does not parse"},
		{"acks/m1", "", byNobody, unreadable, true, anyError},
		{"acks/a/stranger", "1", byNobody, protocol.MemberAck{}, false, "no member id"},
		{"acks/", "", byNobody, protocol.MemberAck{}, false, ""},
	})
}

func TestAnAssignmentThatDoesNotParseIsOwned(t *testing.T) {
	unreadable := protocol.ItemAssignment{Member: "m1", Item: "w", Unreadable: true,
		Assignment: protocol.Assignment{State: protocol.StateOwn}}
	check(t, keysOf(t, "svc").ReadAssignment, []reading[protocol.ItemAssignment]{
		{"assignments/m1/w", "own", byNobody, protocol.ItemAssignment{Member: "m1", Item: "w",
			Assignment: protocol.Assignment{State: protocol.StateOwn}}, true, ""},
		{"assignments/m1/w", `{"s":"rel","to":"` + uuid + `","later":1}`, byNobody,
			protocol.ItemAssignment{Member: "m1", Item: "w",
				Assignment: protocol.Assignment{State: protocol.StateRel, Session: uuid,
					Other: `"later":1`}}, true, ""},
		{"assignments/m1/w", `{"s":"rel","to":"no session"}`, byNobody, unreadable, true,
			"session"},
		{"assignments/m1/w", `{"s":"lent"}`, byNobody, unreadable, true, "lent"},
		{"assignments/m1/w", "whatever", byNobody, unreadable, true, anyError},
		{"assignments/m1/w/x", "own", byNobody, protocol.ItemAssignment{}, false, "no item id"},
		{"assignments/m1", "own", byNobody, protocol.ItemAssignment{}, false, "no item id"},
		{"assignments/m1/", "7", byNobody, protocol.ItemAssignment{}, false, ""},
		{"assignments/", "", byNobody, protocol.ItemAssignment{}, false, ""},
	})
}

func TestAnyValueIsAWorkItem(t *testing.T) {
	k := keysOf(t, "svc")
	check(t, k.ReadWorkItem, []reading[protocol.WorkItem]{
		{"workload/w", "\xff{", byNobody, protocol.WorkItem{ID: "w", Weight: 1}, true, ""},
		{"workload/a/b", "x", byNobody, protocol.WorkItem{}, false, "no item id"},
		{"workload/", "", byNobody, protocol.WorkItem{}, false, ""},
	})
	w, _, _ := k.ReadWorkItem(store.Entry{Key: k.WorkItem("w"), Flags: 5})
	if w.Weight != 5 {
		t.Errorf("weight %d", w.Weight)
	}
}

func TestTheLockMakesALeader(t *testing.T) {
	check(t, keysOf(t, "svc").ReadLeader, []reading[string]{
		{"leader", "n1", heldBy, "n1", true, ""},
		{"leader", "n1", byNobody, "", false, ""},
		{"leader", "a/b", heldBy, protocol.UnreadableLeader, true, "no member's id"},
		{"leader", "", heldBy, protocol.UnreadableLeader, true, "no member's id"},
	})
}

func TestAnOrderThatDoesNotParseIsNone(t *testing.T) {
	k := keysOf(t, "svc")
	given := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	var strange []string
	orders := k.ReadOrders([]store.Entry{
		{Key: k.Control()},
		{Key: k.Control() + "dance"},
		{Key: k.Drain("m1"), Value: []byte("anything")},
		{Key: k.Drain("m2"), Value: protocol.EncodeDrain(given, given.Add(time.Minute))},
		{Key: k.Drain("m3"), Value: protocol.EncodeDrain(given, time.Time{})},
		{Key: k.Drain("m4"), Value: []byte("now until soon")},
		{Key: k.Drain("m5"), Value: append(protocol.EncodeDrain(given, given.Add(time.Hour)),
			" by me"...)},
		{Key: k.Drain("a/b")},
		{Key: k.Freeze()},
		{Key: k.Control() + "freeze/m1"},
		{Key: k.Override(), Value: []byte(given.Format(time.RFC3339Nano)), ModifyIndex: 9},
		{Key: k.Pin("w1"), Value: []byte("m1")},
		{Key: k.Pin("w2"), Value: []byte("a/b")},
		{Key: k.Pin("w3")},
		{Key: k.Pin(" ")},
		{Key: k.RestartItem("w1"), ModifyIndex: 11},
		{Key: k.RestartMember("m1"), ModifyIndex: 12},
		{Key: k.Control() + "restart/w1"},
		{Key: k.RestartItem("a/b")},
		{Key: k.Control() + "restart/all/m1"},
	}, func(e store.Entry, _ string) { strange = append(strange, e.Key[len(k.Control()):]) })
	if !orders.Frozen || orders.Override != 9 || !orders.OverrideAt.Equal(given) ||
		!maps.Equal(orders.Drained, map[string]time.Time{"m1": {},
			"m2": given.Add(time.Minute), "m3": {}, "m4": {},
			"m5": given.Add(time.Hour)}) ||
		!maps.Equal(orders.Pins, map[string]string{"w1": "m1"}) ||
		!maps.Equal(orders.RestartItems, map[string]uint64{"w1": 11}) ||
		!maps.Equal(orders.RestartMembers, map[string]uint64{"m1": 12}) {
		t.Errorf("orders %+v", orders)
	}
	want := []string{"dance", "drain/a/b", "freeze/m1", "pins/w2", "pins/w3", "pins/ ",
		"restart/w1", "restart/items/a/b", "restart/all/m1"}
	if !reflect.DeepEqual(strange, want) {
		t.Errorf("strange are %q, want %q", strange, want)
	}
	orders = k.ReadOrders([]store.Entry{{Key: k.Override(), Value: []byte("now"), ModifyIndex: 9}},
		nil)
	if orders.Override != 9 || !orders.OverrideAt.IsZero() || orders.Frozen {
		t.Errorf("an order of no time: %+v", orders)
	}
}
