// Package eventcheck holds the event log to its word: what a leader's transaction says of itself is
// what it does to the assignments, no more and no less. Only tests use it.
package eventcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Judge returns what is wrong with the records in a commit. What others than leaders do is not
// judged, and neither is a record that counts what found no room in it. If denied is set, nor is a
// commit without a record: of a leader who was once not allowed to write the log.
func Judge(keys protocol.Keys, c devconsul.Commit, denied bool) (faults []string) {
	if !c.Applied || !slices.ContainsFunc(c.Ops, func(op devconsul.CommitOp) bool {
		return op.Verb == "check-index" && op.Key == keys.Leader()
	}) {
		return nil
	}
	did, said, records := done(keys, c.Ops), map[string]int{}, 0
	for _, op := range c.Ops {
		if op.Verb != "set" || !strings.HasPrefix(op.Key, keys.Events()) ||
			op.Key == keys.Events() {
			continue
		}
		r, ok, err := keys.ReadEvent(store.Entry{Key: op.Key, Value: op.Value, CreateIndex: c.Index,
			ModifyIndex: c.Index})
		if !ok || err != nil {
			return []string{fmt.Sprintf("event log: %s holds %q: %v", op.Key, op.Value, err)}
		}
		if r.More > 0 {
			return nil
		}
		records++
		for _, e := range r.Events {
			switch from := e.From; e.What {
			case protocol.EventRestarted, protocol.EventChanged:
				// Its key goes on, as that of an item that is kept does.
				for _, item := range e.Items {
					said[deed(protocol.EventKept, item, from, e.To)]++
				}
			case protocol.EventGranted:
				from = "" // from any owner
				fallthrough
			case protocol.EventRevoked, protocol.EventKept, protocol.EventTakenOver,
				protocol.EventErased:
				for _, item := range e.Items {
					said[deed(e.What, item, from, e.To)]++
				}
			}
		}
	}
	if maps.Equal(did, said) || records == 0 && denied {
		return nil
	}
	for _, what := range slices.Sorted(maps.Keys(did)) {
		if said[what] != did[what] {
			faults = append(faults, fmt.Sprintf("event log: at %d it was not said that %s", c.Index,
				what))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(said)) {
		if did[what] == 0 {
			faults = append(faults, fmt.Sprintf("event log: at %d it was said, and not done, that "+
				"%s", c.Index, what))
		}
	}
	return faults
}

func deed(what, item, from, to string) string {
	return fmt.Sprintf("%s was %s, from %q to %q", item, what, from, to)
}

// done is what operations do to assignments. The two of a take-over follow each other.
func done(keys protocol.Keys, ops []devconsul.CommitOp) map[string]int {
	all := map[string]int{}
	gone, goneItem := "", "" // the assignment that the last operation has deleted
	erased := func() {
		if goneItem != "" {
			all[deed(protocol.EventErased, goneItem, gone, "")]++
		}
		gone, goneItem = "", ""
	}
	for _, op := range ops {
		m, item, ok := keys.ParseAssignment(op.Key)
		switch {
		case !ok || item == "":
		case op.Verb == "delete-cas":
			erased()
			gone, goneItem = m, item
		case op.Verb == "cas":
			a, _ := protocol.ParseAssignment(op.Value)
			switch {
			case a.State == protocol.StateRel:
				all[deed(protocol.EventRevoked, item, m, "")]++
			case op.Index != 0:
				all[deed(protocol.EventKept, item, m, "")]++
			case item == goneItem:
				all[deed(protocol.EventTakenOver, item, gone, m)]++
				goneItem = ""
			default:
				all[deed(protocol.EventGranted, item, "", m)]++
			}
		}
	}
	erased()
	return all
}
