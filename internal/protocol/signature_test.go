package protocol

import (
	"maps"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/store"
)

func TestTheLastTransactionSaysWhoGaveItsOrders(t *testing.T) {
	k, err := KeysOf("demo")
	if err != nil {
		t.Fatal(err)
	}
	pin := []store.Op{store.Set(k.Pin("x"), []byte("n1"), 0), store.Delete(k.Prefer("x"))}
	ops := k.Sign("ann@desk", pin)
	if len(ops) != 3 || ops[2].Key() != k.Signature() {
		t.Fatalf("signed: %v", ops)
	}
	entries := func(signature string) []store.Entry {
		return []store.Entry{
			{Key: k.Signature(), Value: []byte(signature), ModifyIndex: 9},
			{Key: k.Control()},
			{Key: k.Pin("x"), Value: []byte("n1"), ModifyIndex: 9},
			{Key: k.Pin("y"), Value: []byte("n1"), ModifyIndex: 8}, // by somebody before
			{Key: k.Override(), Value: []byte("2026-01-01T00:00:00Z"), ModifyIndex: 9},
			{Key: k.Prefer("z"), Value: []byte("n2"), ModifyIndex: 10}, // given again since
		}
	}
	for signature, want := range map[string]map[string]string{
		string(ops[2].Value()): {PinOrder("x"): "ann@desk", OverrideOrder: "ann@desk",
			PreferOrder("x"): "ann@desk"},
		`{"by":"ann@desk","ended":["prefers/z","drain/n4"],"later":1}`: {PinOrder("x"): "ann@desk",
			OverrideOrder: "ann@desk", DrainOrder("n4"): "ann@desk"},
		`{"by":"ann\u001b[31m"}`:                    {},
		`{"by":"` + strings.Repeat("x", 300) + `"}`: {},
		`{"by":{}}`: {},
		"garbage":   {},
		"":          {},
		`{"ended":["drain/n4"],"at":"x","by":"a@b"}`: {},
		`{"ended":"drain/n4","by":"ann@desk"}`:       {},
		`{"by":"","ended":["drain/n4"]}`:             {},
	} {
		o := k.ReadOrders(entries(signature), func(e store.Entry, why string) {
			t.Errorf("%s: %s", e.Key, why)
		})
		if !maps.Equal(o.By, want) || o.Pins["x"] != "n1" || o.Pins["y"] != "n1" {
			t.Errorf("%s: %v, want %v", signature, o.By, want)
		}
	}
	for _, by := range []string{"", "x\n", "\xff"} {
		if got := k.Sign(by, pin); len(got) != len(pin) {
			t.Errorf("by %q: %v", by, got)
		}
	}
	work := []store.Op{store.Set(k.WorkItem("x"), nil, 0)}
	if got := k.Sign("ann@desk", work); len(got) != len(work) {
		t.Errorf("no order is signed: %v", got)
	}
}
