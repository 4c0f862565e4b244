package operator_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/hashicorp/consul/api"
)

// item reads an item past the client.
func (d *desk) item(id string) string {
	d.t.Helper()
	p, _, err := d.kv.Get("service/demo/workload/"+id, nil)
	d.must(err)
	return fmt.Sprintf("%q weighs %d", p.Value, p.Flags)
}

func TestAWriteOfOneFieldLeavesTheOthers(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		ctx := t.Context()
		add := func(w operator.WorkInput) func() error {
			return func() error { return d.op.AddWork(ctx, w) }
		}
		sync := func(w operator.WorkInput) func() error {
			return func() error {
				_, err := d.op.SyncWork(ctx, []operator.WorkInput{w}, operator.SyncOptions{})
				return err
			}
		}
		for _, c := range []struct {
			name  string
			write func() error
			want  string
		}{
			{"a weight", add(operator.WorkInput{ID: "w", Weight: 9}), `"old" weighs 9`},
			{"a payload", add(operator.WorkInput{ID: "w", Payload: []byte("new")}), `"new" weighs 5`},
			{"an empty payload", add(operator.WorkInput{ID: "w", Payload: []byte{}}), `"" weighs 5`},
			{"nothing", add(operator.WorkInput{ID: "w"}), `"old" weighs 5`},
			{"both", add(operator.WorkInput{ID: "w", Payload: []byte("n"), Weight: 2}), `"n" weighs 2`},
			{"SetWeight", func() error { return d.op.SetWeight(ctx, "w", 7) }, `"old" weighs 7`},
			{"a sync of ids", sync(operator.WorkInput{ID: "w"}), `"old" weighs 5`},
			{"a sync of weights", sync(operator.WorkInput{ID: "w", Weight: 3}), `"old" weighs 3`},
		} {
			_, err := d.kv.Put(&api.KVPair{Key: "service/demo/workload/w", Value: []byte("old"),
				Flags: 5}, nil)
			d.must(err)
			d.must(c.write())
			if got := d.item("w"); got != c.want {
				t.Errorf("%s is written: %s, want %s", c.name, got, c.want)
			}
		}

		// Orders are written whole; one that stands is not written anew.
		by := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		d.must(d.op.As("ann@desk").DrainBy(ctx, "n1", by))
		d.must(d.op.As("bob@desk").Drain(ctx, "n1"))
		d.must(d.op.As("ann@desk").Freeze(ctx))
		d.must(d.op.As("bob@desk").Freeze(ctx))
		s, err := d.op.Status(ctx)
		d.must(err)
		if len(s.Orders) != 2 {
			t.Fatalf("orders: %+v", s.Orders)
		}
		for _, o := range s.Orders {
			if o.By != "ann@desk" || o.Kind == "drain" && !o.Deadline.Equal(by) {
				t.Errorf("ann's order is now %+v", o)
			}
		}
	})
}

func TestAWriteIsRefusedWhenAnotherHasWrittenSinceItsBase(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		ctx, none := t.Context(), uint64(0)
		d.must(d.op.AddWork(ctx, operator.WorkInput{ID: "w", Payload: []byte("one")},
			operator.WorkInput{ID: "gone"}))
		base, err := d.op.ReadWork(ctx, "w")
		d.must(err)
		gone, err := d.op.ReadWork(ctx, "gone")
		d.must(err)
		d.must(d.op.AddWork(ctx, operator.WorkInput{ID: "w", Payload: []byte("two")}))
		d.must(d.op.RemoveWork(ctx, "gone"))
		base.Payload = []byte("three")
		for name, w := range map[string]operator.WorkInput{
			"changed since": base, "removed since": gone,
			"a weight of what was changed": {ID: "w", Weight: 3, BasedOn: base.BasedOn},
			"new, and there is one":        {ID: "w", Payload: []byte("three"), BasedOn: &none},
		} {
			err := d.op.AddWork(ctx, operator.WorkInput{ID: "beside"}, w)
			conflict, ok := errors.AsType[*operator.ConflictError](err)
			if !ok || !errors.Is(err, operator.ErrConflict) || conflict.Key != w.ID ||
				conflict.Want != *w.BasedOn || conflict.Have == conflict.Want {
				t.Errorf("%s: %v", name, err)
			}
		}
		if ids, err := d.op.ItemIDs(ctx); err != nil || fmt.Sprint(ids) != "[w]" ||
			d.item("w") != `"two" weighs 0` {
			t.Errorf("after the refusals there are %v (%v), and w is %s", ids, err, d.item("w"))
		}

		again, err := d.op.ReadWork(ctx, "w")
		d.must(err)
		again.Weight = 4
		d.must(d.op.AddWork(ctx, again, operator.WorkInput{ID: "new", BasedOn: &none}))
		if got := d.item("w"); got != `"two" weighs 4` {
			t.Errorf("based on the newest: %s", got)
		}
		for _, id := range []string{"nobody", "gone"} {
			if err := d.op.SetWeight(ctx, id, 2); !errors.Is(err, operator.ErrNotFound) {
				t.Errorf("the weight of %s: %v", id, err)
			}
		}
	})
}

func TestASyncThatRemovesMostOfTheWorkloadAsksForForce(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		for _, c := range []struct {
			same, add, remove int
			asks              bool
		}{{10, 0, 10, false}, {9, 0, 10, false}, {10, 0, 11, true}, {11, 0, 11, false},
			{0, 1, 10, false}, {0, 0, 1, true}, {0, 1, 11, true}, {0, 0, 0, false}} {
			_, err := d.kv.DeleteTree("service/demo/workload/", nil)
			d.must(err)
			var list []operator.WorkInput
			for i := range c.same + c.remove {
				w := operator.WorkInput{ID: fmt.Sprintf("w%02d", i)}
				d.must(d.op.AddWork(t.Context(), w))
				if i < c.same {
					list = append(list, w)
				}
			}
			for i := range c.add {
				list = append(list, operator.WorkInput{ID: fmt.Sprint("new", i)})
			}
			dry, refused := d.op.SyncWork(t.Context(), list, operator.SyncOptions{DryRun: true})
			diff, err := d.op.SyncWork(t.Context(), list, operator.SyncOptions{})
			if errors.Is(err, operator.ErrRemovesMost) != c.asks || (refused != nil) != c.asks ||
				len(diff.Add) != c.add || len(diff.Remove) != c.remove || diff.Same != c.same ||
				len(dry.Lines) != c.add+c.remove {
				t.Errorf("%+v: %+v, %v; in a dry run %v", c, diff, err, refused)
			}
			_, err = d.op.SyncWork(t.Context(), list, operator.SyncOptions{Force: true})
			d.must(err)
			if ids, err := d.op.ItemIDs(t.Context()); err != nil || len(ids) != c.same+c.add {
				t.Errorf("%+v: %d items after it (%v)", c, len(ids), err)
			}
		}
	})
}
