package devconsul_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
)

func (w world) txn(ops ...*api.KVTxnOp) (bool, *api.TxnResponse) {
	w.Helper()
	var in api.TxnOps
	for _, op := range ops {
		in = append(in, &api.TxnOp{KV: op})
	}
	ok, resp, _, err := w.c.Txn().Txn(in, nil)
	if err != nil {
		w.Fatal(err)
	}
	return ok, resp
}

func TestTransactionIsAppliedWholeOrNotAtAll(t *testing.T) {
	bubble(t, func(w world) {
		w.edit("a=1 b=1")
		ok, resp := w.txn(
			&api.KVTxnOp{Verb: api.KVSet, Key: "a", Value: []byte("2")},
			&api.KVTxnOp{Verb: api.KVDelete, Key: "b"},
			&api.KVTxnOp{Verb: api.KVCheckNotExists, Key: "a"},
			&api.KVTxnOp{Verb: api.KVGet, Key: "none"},
		)
		if ok || len(resp.Results) != 0 || len(resp.Errors) != 2 || resp.Errors[0].OpIndex != 2 ||
			resp.Errors[1].OpIndex != 3 {
			t.Errorf("ok %v, %+v", ok, resp)
		}
		if string(w.key("a").Value) != "1" || w.key("b") == nil {
			t.Error("a refused transaction left changes")
		}
		ok, resp = w.txn(
			&api.KVTxnOp{Verb: api.KVSet, Key: "a", Value: []byte("2")},
			&api.KVTxnOp{Verb: api.KVDelete, Key: "b"},
			&api.KVTxnOp{Verb: api.KVCheckNotExists, Key: "b"},
			&api.KVTxnOp{Verb: api.KVGet, Key: "a"},
		)
		if !ok || len(resp.Results) != 2 {
			t.Fatalf("ok %v, %+v", ok, resp)
		}
		set, got := resp.Results[0].KV, resp.Results[1].KV
		if set.Value != nil || string(got.Value) != "2" || set.ModifyIndex != got.ModifyIndex {
			t.Errorf("set answers %+v, get %+v", set, got)
		}
	})
}

func TestEveryVerbSaysWhyItWasRefused(t *testing.T) {
	bubble(t, func(w world) {
		a, b := w.session(`{"Checks":[]}`), w.session(`{"Checks":[]}`)
		w.edit("a held")
		w.acquire("held", a)
		i := w.key("a").ModifyIndex
		for _, c := range []struct {
			op   api.KVTxnOp
			want string
		}{
			{api.KVTxnOp{Verb: "cas", Key: "a"}, `failed to set key "a", index is stale`},
			{api.KVTxnOp{Verb: "cas", Key: "none", Index: 7},
				`failed to set key "none", index is stale`},
			{api.KVTxnOp{Verb: "delete-cas", Key: "a", Index: 7},
				`failed to delete key "a", index is stale`},
			{api.KVTxnOp{Verb: "lock", Key: "held", Session: b},
				`failed to lock key "held", lock is already held`},
			{api.KVTxnOp{Verb: "lock", Key: "a", Session: "none"}, `invalid session "none"`},
			{api.KVTxnOp{Verb: "lock", Key: "a"}, `missing session`},
			{api.KVTxnOp{Verb: "unlock", Key: "held", Session: b},
				`failed to unlock key "held", lock isn't held, or is held by another session`},
			{api.KVTxnOp{Verb: "get", Key: "none"}, `key "none" doesn't exist`},
			{api.KVTxnOp{Verb: "check-not-exists", Key: "a"}, `key "a" exists`},
			{api.KVTxnOp{Verb: "check-index", Key: "a", Index: 2},
				fmt.Sprintf(`failed index check for key "a", current modify index %d != 2`, i)},
			{api.KVTxnOp{Verb: "check-index", Key: "none", Index: 2},
				`failed to check index, key "none" doesn't exist`},
			{api.KVTxnOp{Verb: "check-session", Key: "held", Session: b},
				fmt.Sprintf(`failed session check for key "held", current session %q != %q`, a, b)},
			{api.KVTxnOp{Verb: "check-session", Key: "none"},
				`failed to check session, key "none" doesn't exist`},
			{api.KVTxnOp{Verb: "frobnicate", Key: "a"}, `unknown KV operation: frobnicate`},
			{api.KVTxnOp{Verb: "set"}, `Must provide key`},
			{api.KVTxnOp{Verb: "get-tree"}, `Must provide key`},
		} {
			// A write beside it sends the same operation through the log.
			for _, ops := range [][]*api.KVTxnOp{{&c.op}, {&c.op, {Verb: "set", Key: "x"}}} {
				if ok, resp := w.txn(ops...); ok || len(resp.Errors) != 1 ||
					resp.Errors[0].What != c.want {
					t.Errorf("%+v: ok %v, %v", c.op, ok, resp.Errors)
				}
			}
		}
	})
}

func TestVerbsThatSucceed(t *testing.T) {
	bubble(t, func(w world) {
		s := w.session(`{"Checks":[]}`)
		w.edit("t/a=1 t/b=2")
		ok, resp := w.txn(
			&api.KVTxnOp{Verb: "lock", Key: "t/l", Session: s, Value: []byte("x"), Flags: 1},
			&api.KVTxnOp{Verb: "check-session", Key: "t/l", Session: s},
			&api.KVTxnOp{Verb: "unlock", Key: "t/l", Session: s},
			&api.KVTxnOp{Verb: "lock", Key: "t/l", Session: s},
			&api.KVTxnOp{Verb: "delete-cas", Key: "t/none", Index: 9},
			&api.KVTxnOp{Verb: "get-or-empty", Key: "t/none"},
			&api.KVTxnOp{Verb: "get-tree", Key: "t/"},
			&api.KVTxnOp{Verb: "delete-tree", Key: "t/"},
			&api.KVTxnOp{Verb: "get-tree", Key: "t/"},
		)
		if !ok || len(resp.Results) != 8 {
			t.Fatalf("ok %v, %d results, %v", ok, len(resp.Results), resp.Errors)
		}
		if l := resp.Results[3].KV; l.LockIndex != 2 || l.Session != s || l.ModifyIndex == 0 {
			t.Errorf("lock answers %+v", l)
		}
		w.want("GET /v1/kv/?keys", 200, "[]")
	})
}

func TestLockingAgainRaisesModifyIndexOnlyWithOtherContents(t *testing.T) {
	bubble(t, func(w world) {
		s := w.session(`{"Checks":[]}`)
		epoch := func(flags uint64) uint64 {
			ok, resp := w.txn(&api.KVTxnOp{Verb: "lock", Key: "leader", Session: s, Flags: flags})
			if !ok {
				t.Fatal(resp.Errors)
			}
			return resp.Results[0].KV.ModifyIndex
		}
		first, same, bumped := epoch(1), epoch(1), epoch(2)
		if first != same || bumped <= same {
			t.Errorf("epochs %d, %d, %d", first, same, bumped)
		}
		ok, _ := w.txn(&api.KVTxnOp{Verb: "check-index", Key: "leader", Index: first},
			&api.KVTxnOp{Verb: "set", Key: "late"})
		if ok || w.key("late") != nil {
			t.Error("a write guarded by the old epoch came through")
		}
	})
}

func TestTransactionLimits(t *testing.T) {
	bubble(t, func(w world) {
		ops := func(n int) string {
			return "PUT /v1/txn [" +
				strings.TrimSuffix(strings.Repeat(`{"KV":{"Verb":"set","Key":"a"}},`, n), ",") + "]"
		}
		if a := w.call(ops(128)); a.code != 200 {
			t.Errorf("128 operations: %d %s", a.code, a.body)
		}
		w.want(ops(129), 413, "Transaction contains too many operations (129 > 128)")

		pre, post := `[{"KV":{"Verb":"set","Key":"huge","Value":"`, `"}}]`
		room := 524288 - len(pre) - len(post)
		value := base64.StdEncoding.EncodeToString(make([]byte, room/4*3))
		body := pre + value + post
		body += strings.Repeat(" ", 524288-len(body))
		if a := w.call("PUT /v1/txn " + body); a.code != 200 {
			t.Errorf("body of 524288 bytes: %d %s", a.code, a.body)
		}
		if a := w.call("PUT /v1/txn " + body + " "); a.code != 413 {
			t.Errorf("body of 524289 bytes: %d %s", a.code, a.body)
		}
	})
}

func TestBodiesThatAreNoTransaction(t *testing.T) {
	bubble(t, func(w world) {
		for body, want := range map[string]string{
			"": "Failed to parse body: EOF",
			"{}": "Failed to parse body: json: cannot unmarshal object into Go value of " +
				"type api.TxnOps",
			`[{"Foo":1}]`: `Failed to parse body: json: unknown field "Foo"`,
			`[{"KV":{"Verb":"set","Key":"a","Value":"?"}}]`: "Failed to parse body: illegal " +
				"base64 data at input byte 0",
		} {
			w.want("PUT /v1/txn "+body, 400, want)
		}
		w.want("PUT /v1/txn []", 200,
			`{"Results":[],"Errors":null,"Index":1,"LastContact":0,"KnownLeader":true,`+
				`"ConsistencyLevel":"","NotModified":false,"Backend":0,`+
				`"ResultsFilteredByACLs":false}`)
	})
}
