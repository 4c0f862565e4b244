package actors_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/protocol"
)

// watched is a cluster whose event log is read.
type watched struct {
	*cluster
	op *operator.Client
}

func logged(t *testing.T, f func(w watched)) {
	t.Helper()
	run(t, func(c *cluster) {
		f(watched{c, c.operator()})
	})
}

func (w watched) events() []operator.Event {
	w.t.Helper()
	log, err := w.op.EventLog(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return log.All()
}

// last is the index of the last event.
func (w watched) last() uint64 {
	w.t.Helper()
	events := w.events()
	return events[len(events)-1].Index
}

// since counts the items of each kind of event after the index; of those without items, the
// events.
func (w watched) since(index uint64) map[string]int {
	w.t.Helper()
	n := map[string]int{}
	for _, e := range w.events() {
		if e.Index > index {
			n[line(e)] += max(1, len(e.Items))
		}
	}
	return n
}

func line(e operator.Event) string {
	s := e.Kind
	if e.From != "" || e.To != "" {
		s += " " + e.From + ">" + e.To
	}
	if e.Why != "" {
		s += " " + e.Why
	}
	return s
}

// agrees makes sure that each item that was granted after the index says the same cause for its
// place as the log, and the same time.
func (w watched) agrees(index uint64) {
	w.t.Helper()
	why, since := map[string]string{}, map[string]time.Time{}
	for _, e := range w.events() {
		for _, item := range e.Items {
			if delete(why, item); e.Index > index && e.Kind == "granted" {
				why[item], since[item] = e.Why, e.Time
			}
		}
	}
	if len(why) == 0 {
		w.t.Error("no item was granted")
	}
	for item, want := range why {
		e, err := w.op.Explain(w.t.Context(), item)
		if w.must(err); e.Reason != want || e.There == "" {
			w.t.Errorf("%s is at %s for %q (%q), and the log says %q", item, e.Member, e.Reason,
				e.There, want)
		}
		if !e.ThereSince.Equal(since[item]) {
			w.t.Errorf("%s is at %s since %v, and the log says %v", item, e.Member, e.ThereSince,
				since[item])
		}
	}
}

// has makes sure that a count has what it should, and nothing else of the kinds named there.
func (w watched) has(got, want map[string]int) {
	w.t.Helper()
	for what, n := range want {
		if got[what] != n {
			w.t.Errorf("%q: %d, want %d", what, got[what], n)
		}
	}
	for what, n := range got {
		if want[what] == 0 {
			w.t.Errorf("%q: %d, want none", what, n)
		}
	}
}

// takes takes out of a count the items that went from a member for one of these reasons, and tells
// how many they are.
func takes(got map[string]int, kind, from string, reasons ...string) (n int) {
	for what, k := range got {
		if strings.HasPrefix(what, kind+" "+from+">") && slices.ContainsFunc(reasons, func(
			r string) bool {
			return strings.HasSuffix(what, " "+r)
		}) {
			n += k
			delete(got, what)
		}
	}
	return n
}

func TestATakeOverIsInTheEventLogWithItsCause(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 9)
		lost, before := w.follower(), w.last()
		w.kill(lost)
		w.await("the lost member's items", 45*time.Second, w.balanced(9))
		time.Sleep(20 * time.Second)
		got := w.since(before)
		if n := takes(got, "taken-over", lost, "lost"); n != 3 {
			w.t.Errorf("%d items were taken over", n)
		}
		w.has(got, map[string]int{"lost " + lost + ">": 1})
		for _, e := range w.events() {
			if e.Kind == "lost" && (e.Holds != 3 || e.Wait < 5000 || e.Wait > 20_000) {
				w.t.Errorf("lost with %d items, which wait %d ms", e.Holds, e.Wait)
			}
		}
	})
}

func TestADrainIsInTheEventLogWithItsCause(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 9)
		n, before := w.follower(), w.last()
		w.must(w.op.Drain(w.t.Context(), n))
		w.await("the member empty", 20*time.Second, func() bool { return w.loads()[n] == 0 })
		w.await("all at work", 20*time.Second, func() bool { return sum(w.loads()) == 9 })
		got := w.since(before)
		if granted := takes(got, "granted", n, "drain"); granted != 3 {
			w.t.Errorf("%d items were granted to others", granted)
		}
		w.has(got, map[string]int{"drained " + n + ">": 1, "revoked " + n + "> drain": 3})
		w.agrees(before)
		before = w.last()
		w.must(w.op.Undrain(w.t.Context(), n))
		w.await("the items shared out", 40*time.Second, w.balanced(9))
		if got := w.since(before); got["undrained "+n+">"] != 1 {
			w.t.Errorf("undrained: %v", got)
		}
	})
}

func TestARebalanceOnAJoinIsInTheEventLogWithItsCause(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 12)
		before := w.last()
		w.start("n4")
		w.await("the items shared out", 40*time.Second, w.balanced(12))
		got, want := w.since(before), map[string]int{"joined >n4": 1}
		for _, from := range []string{"n1", "n2", "n3"} {
			want["revoked "+from+"> balance"] = 1
			want["granted "+from+">n4 balance"] = 1
		}
		w.has(got, want)
		w.agrees(before)
	})
}

func TestACleanStopIsInTheEventLogWithItsCause(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 9)
		n, before := w.follower(), w.last()
		w.stop(n)
		w.await("the items shared out", 20*time.Second, w.balanced(9))
		time.Sleep(5 * time.Second)
		got := w.since(before)
		// The release may be seen before the record that says why: then its items may even be granted
		// to it once more.
		maps.DeleteFunc(got, func(what string, _ int) bool {
			return strings.HasPrefix(what, "granted "+n+">"+n+" ")
		})
		if granted := takes(got, "granted", n, "left", "released"); granted != 3 {
			w.t.Errorf("%d items were granted to others: %v", granted, w.since(before))
		}
		delete(got, "leaving "+n+">")                   // if it was seen
		if k := got["left "+n+"> unannounced"]; k > 0 { // its word may have been missed
			delete(got, "left "+n+"> unannounced")
			got["left "+n+">"] += k
		}
		w.has(got, map[string]int{"left " + n + ">": 1})
		w.agrees(before)
	})
}

func TestTheEventLogGoesOnAcrossLeaders(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 9)
		old, before := w.leader(), w.last()
		w.kill(old)
		w.await("the lost leader's items", 60*time.Second, w.balanced(9))
		time.Sleep(20 * time.Second)
		got := w.since(before)
		next := w.leader()
		if got["leads "+old+">"+next] != 1 || got["lost "+old+">"] != 1 {
			w.t.Errorf("after the leader's loss: %v", got)
		}
		w.start(old)
		w.await("the items shared out", 60*time.Second, w.balanced(9))
		before = w.last()
		w.stop(next) // hands its leadership over
		w.await("the items shared out", 60*time.Second, w.balanced(9))
		time.Sleep(20 * time.Second)
		got = w.since(before)
		if n := got["left "+next+">"] + got["left "+next+"> unannounced"]; n != 1 {
			w.t.Errorf("%d times left: %v", n, got)
		}
		if n := got["leads "+next+">"+w.leader()]; n != 1 {
			w.t.Errorf("%d times leads: %v", n, got)
		}
		for what, n := range got {
			if strings.HasPrefix(what, "joined") || strings.HasPrefix(what, "lost") {
				w.t.Errorf("%q: %d", what, n)
			}
		}
	})
}

func TestAMoveThatTwoLeadersMakeKeepsItsCause(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 9)
		n, old, before := w.follower(), w.leader(), w.last()
		w.must(w.op.Drain(w.t.Context(), n))
		w.await("the order to give up", 5*time.Second, func() bool {
			return w.since(before)["revoked "+n+"> drain"] == 3
		})
		w.kill(old)
		w.await("all at work", 60*time.Second, func() bool { return sum(w.loads()) == 9 })
		if granted := takes(w.since(before), "granted", n, "drain"); granted != 3 {
			w.t.Errorf("%d items were granted with their cause: %v", granted, w.since(before))
		}
		w.agrees(before)
	})
}

func TestOrdersAndTheBrakeAreInTheEventLog(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 30)
		before, ctx, item := w.last(), w.t.Context(), w.items(1)[0]
		type operators = *operator.Client
		for i, order := range []func(o operators) error{
			func(o operators) error { return o.Freeze(ctx) },
			func(o operators) error { return o.Thaw(ctx) },
			func(o operators) error { return o.Pin(ctx, item, "n2") },
			func(o operators) error { return o.Prefer(ctx, item, "n3") },
			func(o operators) error { return o.Unpin(ctx, item) },
			func(o operators) error { return o.Restart(ctx, item) },
			func(o operators) error { return o.Drain(ctx, "n3") },
			func(o operators) error { return o.Undrain(ctx, "n3") },
			func(o operators) error { return o.Override(ctx) },
		} {
			w.must(order(w.op.As(string(rune('a' + i)))))
			time.Sleep(10 * time.Second)
		}
		w.must(w.op.Freeze(ctx)) // and nobody says who
		time.Sleep(3 * time.Second)
		w.must(w.op.Thaw(ctx))
		time.Sleep(12 * time.Second) // an override counts for what vanishes within 10 s
		got := w.since(before)
		for _, what := range []string{"pinned >n2", "unpinned", "preferred >n3", "unpreferred"} {
			if got[what] != 1 {
				w.t.Errorf("%s: %d of %v", what, got[what], got)
			}
		}
		var signed []string
		for _, e := range w.events() {
			switch e.Kind {
			case "frozen", "thawed", "pinned", "unpinned", "preferred", "unpreferred", "restarted",
				"drained", "undrained", "overridden":
				signed = append(signed, e.Kind+" by "+e.By)
			}
		}
		if want := []string{"frozen by a", "thawed by b", "pinned by c", "unpinned by d",
			"preferred by d", "unpreferred by e", "restarted by f", "drained by g", "undrained by h",
			"overridden by i", "frozen by ", "thawed by "}; !slices.Equal(signed, want) {
			t.Errorf("the events say\n%q, not\n%q", signed, want)
		}
		before = w.last()
		w.removeWork(w.items(25)...)
		time.Sleep(10 * time.Second)
		w.must(w.op.Override(ctx))
		time.Sleep(10 * time.Second)
		removed := 0
		got = w.since(before)
		for _, id := range []string{"n1", "n2", "n3"} {
			removed += takes(got, "revoked", id, "removed")
		}
		if got["overridden"] != 1 || got["brake-off"] != 1 || removed != 25 {
			w.t.Errorf("overridden %d, brake-off %d, removed %d", got["overridden"],
				got["brake-off"], removed)
		}
		if !slices.ContainsFunc(w.events(), func(e operator.Event) bool {
			return e.Kind == "brake-on" && strings.Contains(e.Why, "items")
		}) {
			w.t.Errorf("no brake came on: %v", got)
		}
	})
}

func TestTheEventLogIsARing(t *testing.T) {
	logged(t, func(w watched) {
		three(w.cluster, 3)
		before := w.last()
		for i := range 2 * protocol.EventSlots {
			w.addWork(fmt.Sprintf("more_%d", i%2))
			time.Sleep(2 * time.Second)
			w.removeWork(fmt.Sprintf("more_%d", i%2))
			time.Sleep(2 * time.Second)
		}
		slots := 0
		for _, e := range w.consul.Dump().Entries {
			if strings.HasPrefix(e.Key, w.store.Keys().Events()) && len(e.Value) > 0 {
				slots++
			}
		}
		if slots != protocol.EventSlots {
			w.t.Errorf("%d slots", slots)
		}
		events := w.events()
		for i := 1; i < len(events); i++ {
			if events[i].Time.Before(events[i-1].Time) || events[i].Index < events[i-1].Index {
				w.t.Errorf("%+v comes before %+v", events[i-1], events[i])
			}
		}
		if newest := events[len(events)-1]; time.Since(newest.Time) > 10*time.Second {
			w.t.Errorf("the newest is of %v ago", time.Since(newest.Time))
		}
		for e := range w.op.FollowEvents(w.t.Context(), before) { // of one who was away for too long
			if e.Kind != operator.EventsMissed {
				w.t.Errorf("the first event is %+v", e)
			}
			break
		}
		// A new leader goes on where the old one ended.
		before = w.last()
		w.kill(w.leader())
		w.await("the items shared out", 60*time.Second, w.balanced(3))
		if got := w.since(before); len(got) < 3 {
			w.t.Errorf("after the leader's loss: %v", got)
		}
	})
}
