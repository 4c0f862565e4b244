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

// What is read by hand is what encoding/json reads, of whatever form the answer is.
func TestAnAnswerIsReadAsItsJSON(t *testing.T) {
	type entry struct { // as Consul has it
		LockIndex   uint64
		Key         string
		Flags       uint64
		Value       []byte
		Session     string `json:",omitempty"`
		CreateIndex uint64
		ModifyIndex uint64
	}
	type result struct{ KV *entry }
	byHand := 0
	rapid.Check(t, func(t *rapid.T) {
		var answer struct {
			Results []result
			Errors  []api.TxnError
		}
		answer.Results = []result{}
		for range rapid.IntRange(0, 4).Draw(t, "results") {
			answer.Results = append(answer.Results, result{&entry{
				LockIndex: rapid.Uint64().Draw(t, "lock"),
				Key: rapid.OneOf(rapid.StringMatching("[a-z/]*"), rapid.String()).Draw(t,
					"key"),
				Flags:       rapid.Uint64().Draw(t, "flags"),
				Value:       rapid.SliceOf(rapid.Byte()).Draw(t, "value"),
				Session:     rapid.StringMatching("[a-f0-9-]*").Draw(t, "session"),
				CreateIndex: rapid.Uint64().Draw(t, "created"),
				ModifyIndex: rapid.Uint64().Draw(t, "modified"),
			}})
			if rapid.IntRange(0, 9).Draw(t, "no value") == 0 {
				answer.Results[len(answer.Results)-1].KV.Value = nil
			}
		}
		data, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		switch rapid.IntRange(0, 9).Draw(t, "form") {
		case 0: // cut, or something else in it: no JSON, or another form of it
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			data[at] = rapid.SampledFrom([]byte(`0{}[]",:9 a\`)).Draw(t, "in its place")
		case 1:
			data = append([]byte(`{"Errors":[],`), data[1:]...)
		}
		type any txnReply
		var want any
		wrong := json.Unmarshal(data, &want)
		var got txnReply
		if err := json.Unmarshal(data, &got); (err == nil) != (wrong == nil) {
			t.Fatalf("%s\nis read as %v, not %v", data, err, wrong)
		}
		if wrong == nil && !reflect.DeepEqual(got, txnReply(want)) {
			t.Fatalf("%s\nis read as %v\nnot %v", data, got, want)
		}
		if _, ok := readResults(data); ok {
			byHand++
		}
	})
	if byHand == 0 {
		t.Error("no answer was read by hand")
	}
}
