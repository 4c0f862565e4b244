package simulation_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/coordd/coordd/internal/facts"
	"github.com/hashicorp/consul/api"
)

// strangers are those who write to Consul and should not.
var strangers = map[string]script{
	"strange": func(w *world, e episode) []action {
		return once(e, func() { w.strange(e) })
	},
	"aimed": func(w *world, e episode) []action { return w.aimed(e) },
}

// stranger writes to Consul as somebody does who should not. A Consul without a leader refuses it.
func (w *world) stranger(ops ...*api.TxnOp) {
	w.client.Txn().Txn(ops, (&api.QueryOptions{}).WithContext(context.Background()))
}

func (w *world) strange(e episode) {
	id := w.plan.ids[e.who[0]]
	op := func(verb api.KVOp, key string) *api.TxnOp {
		return &api.TxnOp{KV: &api.KVTxnOp{Verb: verb, Key: w.root + key, Value: fmt.Appendf(nil,
			"{strange %d", e.n)}}
	}
	switch e.how {
	case "member-delete", "leader-delete":
		p := w.proc(id)
		key := "members/" + id
		if e.how == "leader-delete" {
			p, key = nil, "leader"
			w.mu.Lock()
			w.lawless = true
			procs := slices.Clone(w.all)
			w.mu.Unlock()
			for _, p := range procs { // one that was deposed may not know it yet
				if p.member.Leadership().Get().Role == facts.Leading {
					w.early(p)
				}
			}
		}
		if p != nil {
			w.early(p)
		}
		w.stranger(op(api.KVDelete, key))
	case "member-write":
		w.stranger(op(api.KVSet, "members/"+id))
	case "leader-write":
		w.stranger(op(api.KVSet, "leader"))
	case "leader-cas":
		for _, x := range w.consul.Dump().Entries {
			if x.Key == w.root+"leader" {
				o := op(api.KVCAS, "leader")
				o.KV.Index, o.KV.Flags = x.ModifyIndex, uint64(e.n)
				w.stranger(o)
			}
		}
	case "ack-delete":
		w.stranger(op(api.KVDelete, "acks/"+id))
	case "ack-write":
		w.stranger(op(api.KVSet, "acks/"+id))
	case "odd-keys":
		for _, key := range []string{"members/x/y", "members/", "members/plain", "workload/a/b",
			"workload/", "assignments/odd", "assignments/", "assignments/nobody/", "acks/",
			"acks/a/b", "control/whatever", "unknown/key"} {
			w.stranger(op(api.KVSet, key))
		}
	}
}
