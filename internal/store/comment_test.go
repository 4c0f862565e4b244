package store_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/store"
)

func TestACommentGoesWithEachTransactionOnce(t *testing.T) {
	batched(t, func(t *testing.T, p *spy, s store.Store, guard store.Op) {
		var units []store.Unit
		for i := range 1000 {
			units = append(units, unit("m1", i))
		}
		w, calls := p.writer(t, s, guard, 0), 0
		w.Comment(store.Set("log/99", make([]byte, 20), 0), func(of []store.Unit) (store.Op, bool) {
			calls++
			return store.Set(fmt.Sprintf("log/%d", calls), fmt.Appendf(nil, "%d", len(of)), 0), true
		})
		for i, o := range w.Write(t.Context(), units) {
			if o.Err != nil || o.Unit.Tag != i || len(o.Result.Entries) != 1 ||
				o.Result.Entries[0].Key != units[i].Ops[0].Key() {
				t.Fatalf("unit %d: %+v", i, o)
			}
		}
		if len(p.txns) != 8 || calls != 8 { // 1000 / 125
			t.Errorf("%d transactions, %d comments", len(p.txns), calls)
		}
		for _, ops := range p.txns {
			if last := ops[len(ops)-1]; len(ops) > store.MaxOps || last.Verb != "set" ||
				!strings.HasPrefix(last.Key, "log/") {
				t.Errorf("a transaction of %d operations ends with %+v", len(ops), last)
			}
		}
	})
}

func TestRoomIsKeptForTheLargestComment(t *testing.T) {
	batched(t, func(t *testing.T, p *spy, s store.Store, guard store.Op) {
		value := bytes.Repeat([]byte("x"), 20_000)
		var units []store.Unit
		for i := range 40 {
			units = append(units, store.Unit{Lane: "m1",
				Ops: []store.Op{store.Set(fmt.Sprintf("large/%d", i), value, 0)}})
		}
		largest := store.Set("log/1", bytes.Repeat([]byte("y"), 300_000), 0)
		w := p.writer(t, s, guard, 0)
		w.Comment(largest, func([]store.Unit) (store.Op, bool) { return largest, true })
		for i, o := range w.Write(t.Context(), units) {
			if o.Err != nil {
				t.Fatalf("unit %d: %v", i, o.Err)
			}
		}
		for _, ops := range p.txns {
			if ops[len(ops)-1].Key != "log/1" {
				t.Errorf("a transaction of %d operations has no comment", len(ops))
			}
		}
	})
}
