package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A call whose outcome is not known has no effect any more once a later one has succeeded: an item
// that was removed meanwhile does not come back when the request that was to add it arrives at
// last, and one that was added again does not go.
func TestAnOperatorsWriteOfUnknownOutcomeEndsWithTheNextOne(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		late, verb := &transport.Recorder{To: transport.Fail(transport.ErrReset)}, "none"
		op, err := operator.New(devconsul.ClientOver(transport.When(d.consul.RoundTripper(),
			func(r *http.Request) bool { return transport.TxnWith(`"` + verb + `"`)(r) },
			late.RoundTrip)), "demo")
		d.must(err)
		deliver := func() int {
			return transport.Again(d.consul.RoundTripper(), late.Copies()[len(late.Copies())-1])
		}
		has := func() bool {
			p, _, err := d.kv.Get("service/demo/workload/w", nil)
			d.must(err)
			return p != nil
		}
		d.must(op.AddWork(t.Context(), operator.WorkInput{ID: "w"}))
		verb = "delete"
		if err := op.RemoveWork(t.Context(), "w"); !errors.Is(err, operator.ErrUnreachable) {
			t.Fatalf("a removal without an answer: %v", err)
		}
		d.must(d.op.AddWork(t.Context(), operator.WorkInput{ID: "w", Payload: []byte("anew")}))
		if code := deliver(); code != http.StatusConflict || !has() {
			t.Errorf("the late removal was answered %d; the item is there: %v", code, has())
		}
		verb = "set"
		if err := op.AddWork(t.Context(), operator.WorkInput{ID: "w", Weight: 1,
			Payload: []byte("late")}); !errors.Is(err, operator.ErrUnreachable) {
			t.Fatalf("an addition without an answer: %v", err)
		}
		d.must(d.op.RemoveWork(t.Context(), "w"))
		if code := deliver(); code != http.StatusConflict || has() {
			t.Errorf("the late addition was answered %d; the item is there: %v", code, has())
		}
	})
}

// Operators that write the same item, one its weight and one its payload, take nothing back.
func TestOperatorsThatMeetAllSucceed(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		var all sync.WaitGroup
		d.must(d.op.AddWork(t.Context(), operator.WorkInput{ID: "w"}))
		for i := range 8 {
			op := d.op // half of the calls are one operator's
			if i%2 == 0 {
				var err error
				op, err = operator.New(d.consul.Client(), "demo")
				d.must(err)
			}
			all.Go(func() {
				for j := range 10 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if err := op.AddWork(ctx, operator.WorkInput{ID: fmt.Sprintf("w-%d-%d", i,
						j)}); err != nil {
						t.Errorf("operator %d: %v", i, err)
					}
					same := op.AddWork(ctx, operator.WorkInput{ID: "w", Payload: fmt.Append(nil, j)})
					if i == 1 {
						same = op.SetWeight(ctx, "w", uint64(j+1))
					}
					if err := errors.Join(same, op.Drain(ctx, fmt.Sprintf("m%d", i))); err != nil {
						t.Errorf("operator %d: %v", i, err)
					}
					cancel()
				}
			})
		}
		all.Wait()
		s, err := d.op.Status(t.Context())
		d.must(err)
		if s.Work.Total != 81 || len(s.Drained) != 8 || d.item("w") != `"9" weighs 10` {
			t.Errorf("%d items, drained %v, and %s", s.Work.Total, s.Drained, d.item("w"))
		}
	})
}
