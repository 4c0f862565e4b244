package simulation_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/eventcheck"
	"github.com/coordd/coordd/internal/history"
)

// committed writes down what Consul accepted.
func (w *world) committed(c devconsul.Commit) {
	if !c.Applied {
		return
	}
	for _, fault := range eventcheck.Judge(w.user.Keys(), c, true) {
		w.fail("%s", fault)
	}
	proc, epoch := "", uint64(0)
	if s := w.sender.Load(); s != nil && (len(s.ops) == 0 ||
		len(s.ops) == len(c.Ops) && s.ops[0].KV.Key == c.Ops[0].Key) {
		proc, epoch = s.proc, s.epoch
	}
	if len(c.Ops) > 0 && strings.HasPrefix(c.Ops[0].Verb, "session-") {
		proc, epoch = "", 0
	}
	for _, op := range c.Ops {
		if !op.OK {
			continue
		}
		w.lived(op.Verb, op.Session)
		if op.Verb == "session-destroy" && (c.Ops[0].Verb == "register" ||
			c.Ops[0].Verb == "deregister") {
			w.endedByCheck(op.Session)
		}
		switch op.Verb {
		case "set", "cas", "lock", "unlock":
			w.keys[op.Key] = true
			if w.ghostly(op.Key) {
				continue
			}
			w.rec.Add(history.Event{Verb: history.Set, Proc: proc, Index: c.Index, Epoch: epoch,
				Key: w.short(op.Key), Value: w.told(op)})
		case "delete", "delete-cas", "session-delete":
			w.deleted(op.Key, proc, c.Index, epoch)
		case "delete-tree":
			for _, key := range slices.Sorted(maps.Keys(w.keys)) {
				if strings.HasPrefix(key, op.Key) {
					w.deleted(key, proc, c.Index, epoch)
				}
			}
		}
	}
}

func (w *world) deleted(key, proc string, index, epoch uint64) {
	if w.keys[key] {
		delete(w.keys, key)
		if w.ghostly(key) {
			return
		}
		w.rec.Add(history.Event{Verb: history.Del, Proc: proc, Index: index, Epoch: epoch,
			Key: w.short(key)})
	}
}

func (w *world) short(key string) string {
	if rest, ok := strings.CutPrefix(key, w.root); ok {
		return rest
	}
	return "/" + key
}
