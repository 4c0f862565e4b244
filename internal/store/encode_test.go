package store

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/consul/api"
	"pgregory.net/rapid"
)

// An internal test: what goes over the wire is written by hand.
func TestAnOperationIsWrittenAsItsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := api.KVTxnOp{
			Verb:    api.KVOp(rapid.SampledFrom([]string{"set", "cas", "lock", "check-index"}).Draw(t, "verb")),
			Key:     rapid.String().Draw(t, "key"),
			Value:   rapid.SliceOf(rapid.Byte()).Draw(t, "value"),
			Flags:   rapid.Uint64().Draw(t, "flags"),
			Index:   rapid.Uint64().Draw(t, "index"),
			Session: rapid.StringMatching(`[a-f0-9-]{0,36}|"\\\n`).Draw(t, "session"),
		}
		var got struct{ KV api.KVTxnOp }
		if err := json.Unmarshal(Op{want}.encode(), &got); err != nil {
			t.Fatalf("%s: %v", Op{want}.encode(), err)
		}
		if string(got.KV.Value) != string(want.Value) {
			t.Fatalf("value %q, want %q", got.KV.Value, want.Value)
		}
		got.KV.Value, want.Value = nil, nil
		if a, b := encode(got.KV), encode(want); string(a) != string(b) {
			t.Fatalf("got %s, want %s", a, b)
		}
	})
}
