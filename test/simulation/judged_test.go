package simulation_test

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/history"
)

// leftovers looks for what nobody holds any more and nobody took away (I6).
func (w *world) leftovers() {
	if n := w.consul.Blocked(); n != 0 {
		w.fail("I6: %d blocking queries are left over", n)
	}
	time.Sleep(2*w.plan.settings.longest() + time.Second)
	d := w.consul.Dump()
	if n := len(d.Sessions); n != 0 {
		w.fail("I6: %d sessions are left over", n)
	}
	for _, e := range d.Entries {
		kind, rest, _ := strings.Cut(w.short(e.Key), "/")
		known := slices.Contains(w.plan.ids, strings.SplitN(rest, "/", 2)[0])
		if kind == "members" && w.left[rest] && e.Session == "" &&
			bytes.HasPrefix(e.Value, []byte("{strange")) {
			// a stranger's, written where there is no member any more: it is the stranger's to
			// delete
			continue
		}
		if kind == "leader" || known && (kind == "members" ||
			kind == "assignments" && w.plan.settings.keep == 0 && !strings.HasSuffix(e.Key, "/")) {
			w.fail("I6: the key %s is left over: %s", e.Key, bytes.TrimSpace(e.Value))
		}
	}
}

// judgeGentle holds a run in which no session could end against I5.
func (w *world) judgeGentle() {
	leaders := map[string]bool{}
	starts := map[string]int{}
	for _, e := range w.rec.Events() {
		switch e.Verb {
		case history.Lead:
			leaders[e.Proc] = true
		case history.Unlead:
			w.fail("I5: %s lost the leadership", e.Proc)
		case history.Start:
			starts[e.Item+" at "+e.Proc]++
		case history.Early:
			w.fail("I5: not gentle: %v", e)
		}
	}
	if len(leaders) > 1 {
		w.fail("I5: %d members led, one after the other", len(leaders))
	}
	for what, n := range starts {
		if n > 1 {
			w.fail("I5: %s was started %d times", what, n)
		}
	}
}
