package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/store"
)

func slotEntry(k Keys, slot int, index uint64, value []byte) store.Entry {
	return store.Entry{Key: k.Event(slot), Value: value, CreateIndex: 1, ModifyIndex: index}
}

func TestAnEventRecordStaysWithinItsSize(t *testing.T) {
	k, err := KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 20, 60, 128, 256} {
		for _, char := range []string{"x", "<", "é", "\""} {
			var items []string
			for i := range 125 {
				id := fmt.Sprintf("%03d", i) + strings.Repeat(char, size/len(char))
				items = append(items, strings.ToValidUTF8(id[:min(len(id), 256)], ""))
			}
			r := EventRecord{At: lastMillisecond, Leader: strings.Repeat("l", 256), Epoch: 1 << 63,
				Events: []Event{{What: EventLeads, To: strings.Repeat("l", 256)},
					{What: EventGranted, From: "n1", To: "n2", Why: "drain", Items: items},
					{What: EventGranted, From: "n3", To: "n2", Why: "drain", Items: items}}}
			value := r.Encode()
			if len(value) > MaxEventBytes {
				t.Errorf("%d items of %d bytes: %d bytes", len(items), size, len(value))
			}
			got, ok, err := k.ReadEvent(slotEntry(k, 3, 7, value))
			if !ok || err != nil {
				t.Fatalf("%d items of %d bytes: %v %v", len(items), size, ok, err)
			}
			n := got.More
			for _, e := range got.Events {
				n += len(e.Items)
			}
			if n != 2*len(items) {
				t.Errorf("%d items of %d bytes: %d accounted for", 2*len(items), size, n)
			}
			if got.Slot != 3 || got.Index != 7 {
				t.Errorf("slot %d, index %d", got.Slot, got.Index)
			}
		}
	}
}

func TestEventsAreInTheOrderOfConsul(t *testing.T) {
	k, err := KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	value := func(at int64) []byte {
		return EventRecord{At: at, Leader: "n1", Events: []Event{{What: EventThawed}}}.Encode()
	}
	var strange []string
	records := k.ReadEvents([]store.Entry{
		{Key: k.Events(), CreateIndex: 1, ModifyIndex: 1}, // the sentinel
		slotEntry(k, 0, 30, value(1)),
		slotEntry(k, 1, 31, value(lastMillisecond)),
		slotEntry(k, 2, 31, value(5)),
		slotEntry(k, 3, 12, value(9)),
		slotEntry(k, 70_000, 13, value(9)),
		slotEntry(k, 4, 14, []byte(`{"at":99999999999999999,"by":"n1"}`)),
		slotEntry(k, 5, 15, []byte(`{"at":1,"by":"n1","e":[{"do":"granted","i":["a/b"]}]}`)),
		slotEntry(k, 6, 16, []byte(`{"at":1,"by":"n1","e":[{"do":"\u001b[31m"}]}`)),
		{Key: k.Events() + "01", Value: value(1), CreateIndex: 1, ModifyIndex: 17},
		{Key: k.Events() + "x/y", Value: value(1), CreateIndex: 1, ModifyIndex: 17},
	}, func(e store.Entry, _ string) {
		strange = append(strange, strings.TrimPrefix(e.Key, k.Events()))
	})
	var slots []int
	for _, r := range records {
		slots = append(slots, r.Slot)
	}
	if want := []int{3, 0, 2, 1}; !slices.Equal(slots, want) {
		t.Errorf("the slots %v, want %v", slots, want)
	}
	if want := []string{"70000", "4", "5", "6", "01", "x/y"}; !slices.Equal(strange, want) {
		t.Errorf("strange are %q, want %q", strange, want)
	}
}

func TestAnEventOfALaterVersionIsRead(t *testing.T) {
	k, err := KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	value := []byte(`{"at":1,"by":"n1","epoch":3,"colour":7,` +
		`"e":[{"do":"teleported","i":["a"],"via":"x"}]}`)
	r, ok, err := k.ReadEvent(slotEntry(k, 900, 1, value))
	if !ok || err != nil || r.Events[0].What != "teleported" {
		t.Errorf("%+v %v %v", r, ok, err)
	}
	if !json.Valid(r.Encode()) {
		t.Error("it cannot be written")
	}
}

func TestAnOrderSaysWhoGaveIt(t *testing.T) {
	k, err := KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	given := []byte("2026-01-01T00:00:00Z")
	for by, want := range map[string]string{
		"ann@desk": "ann@desk", "": "", "a by b": "a by b", "x\x1b[31m": "", "\xff": "",
		strings.Repeat("x", 300): "",
	} {
		o := k.ReadOrders([]store.Entry{
			{Key: k.Freeze(), Value: SignOrder(slices.Clone(given), by), ModifyIndex: 1},
			{Key: k.Drain("n1"), Value: SignOrder(slices.Clone(given), by), ModifyIndex: 2},
			{Key: k.Drain("n2"), Value: append(slices.Clone(given), " by "+by...), ModifyIndex: 2},
		}, func(e store.Entry, why string) { t.Errorf("%s: %s", e.Key, why) })
		if _, drained := o.Drained["n2"]; !o.Frozen || !drained || o.By[FreezeOrder] != want ||
			o.By[DrainOrder("n1")] != want || o.By[DrainOrder("n2")] != want {
			t.Errorf("by %q: %+v", by, o)
		}
	}
}
