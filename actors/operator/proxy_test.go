package operator_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// proxied is an operator behind a proxy. When between is set the proxy loses Consul's answer to the
// next transaction, and sends that again after between has returned. What comes of the copy is the
// answer.
func proxied(t *testing.T, d *desk) (op *operator.Client, between *func()) {
	t.Helper()
	between = new(func())
	to := d.consul.RoundTripper()
	client := devconsul.ClientOver(transport.Func(func(r *http.Request) (*http.Response, error) {
		do := *between
		if body := transport.Txn(r); do == nil || body == "" ||
			strings.Contains(body, "get-or-empty") { // which reads
			return to.RoundTrip(r)
		}
		*between = nil
		if code := transport.Again(to, r); code != http.StatusOK {
			t.Errorf("the first copy is answered %d", code)
		}
		do()
		resp, err := to.RoundTrip(r)
		if err == nil && resp.StatusCode != http.StatusConflict {
			t.Errorf("the second copy is answered %d", resp.StatusCode)
		}
		return resp, err
	}))
	op, err := operator.New(client, "demo")
	d.must(err)
	return op, between
}

// A proxy that has lost Consul's answer sends the request again and passes on what comes of that
// copy: a refusal, for the first copy was applied. What others have done in between stands.
func TestAnOperatorsWriteThatAProxyRepeatsTakesEffectOnce(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		op, between := proxied(t, d)
		has := func(key string) bool {
			p, _, err := d.kv.Get("service/demo/"+key, nil)
			d.must(err)
			return p != nil
		}
		for range 2 { // without and with a write before it
			*between = func() { d.must(d.op.RemoveWork(t.Context(), "w")) } // which was there
			d.must(op.AddWork(t.Context(), operator.WorkInput{ID: "w"}))
			if has("workload/w") {
				t.Error("an item that was added, and then removed by another, is there again")
			}
			*between = func() { d.must(d.op.Undrain(t.Context(), "m1")) }
			d.must(op.Drain(t.Context(), "m1"))
			if has("control/drain/m1") {
				t.Error("an order that was taken back stands again")
			}
		}
	})
}
