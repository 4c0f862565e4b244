package operator_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Weights come with payloads, which can be large.
func TestWeightsAreReadAgainOnlyWhenTheWorkloadHasChanged(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		reads := 0
		op, err := operator.New(devconsul.ClientOver(transport.Func(func(r *http.Request) (
			*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/workload/") && r.URL.Query().Has("recurse") {
				reads++
			}
			return d.consul.RoundTripper().RoundTrip(r)
		})), "demo")
		d.must(err)
		look := func(want int, weight uint64) {
			t.Helper()
			for range 3 {
				_, _, items, err := op.Look(t.Context())
				d.must(err)
				if len(items) != 1 || items[0].Weight != weight {
					t.Errorf("the items are %v, and w should weigh %d", items, weight)
				}
			}
			if _, err := op.Status(t.Context()); err != nil || reads != want {
				t.Errorf("the workload was read %d times, want %d (%v)", reads, want, err)
			}
		}
		d.must(d.op.AddWork(t.Context(), operator.WorkInput{ID: "w", Weight: 3}))
		look(1, 3)
		d.must(d.op.AddWork(t.Context(), operator.WorkInput{ID: "w", Weight: 5}))
		look(2, 5)
		d.must(d.op.Drain(t.Context(), "m1"))
		look(2, 5)
	})
}
