package store

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/hashicorp/consul/api"
	"pgregory.net/rapid"
)

// An internal test: what goes over the wire is written by hand.
func TestAnOperationIsWrittenAsItsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := api.KVTxnOp{
			Verb: api.KVOp(rapid.SampledFrom([]string{"set", "cas", "lock", "check-index"}).Draw(
				t, "verb")),
			Key:     rapid.String().Draw(t, "key"),
			Value:   rapid.SliceOf(rapid.Byte()).Draw(t, "value"),
			Flags:   rapid.Uint64().Draw(t, "flags"),
			Index:   rapid.Uint64().Draw(t, "index"),
			Session: rapid.StringMatching(`[a-f0-9-]{0,36}|"\\\n`).Draw(t, "session"),
		}
		var got struct{ KV api.KVTxnOp }
		body := Op{want}.appendTo(nil)
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if most := (Op{want}).most(); len(body) > most {
			t.Fatalf("%d bytes, said to be %d at the most: %s", len(body), most, body)
		}
		if string(got.KV.Value) != string(want.Value) {
			t.Fatalf("value %q, want %q", got.KV.Value, want.Value)
		}
		got.KV.Value, want.Value = nil, nil
		if !reflect.DeepEqual(got.KV, want) {
			t.Fatalf("got %+v, want %+v", got.KV, want)
		}
	})
}

func TestWhatIsOrdinaryIsNeverRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-z./ %_-]{0,12}`).Draw(t, "key")
		if err := CheckKey("get", key); ordinary(key) && err != nil {
			t.Fatalf("%q counts as ordinary: %v", key, err)
		}
	})
}
