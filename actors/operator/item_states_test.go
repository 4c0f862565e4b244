package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/protocol"
)

// told is what a member says of its items, in the name of the session that locks its record.
func (d *desk) told(member string, counts map[string]int, items ...protocol.WorkReport) {
	d.t.Helper()
	e, _, err := d.kv.Get("service/demo/members/"+member, nil)
	d.must(err)
	d.put("states/"+member, string(protocol.WorkSummary{Session: e.Session, Seq: 1,
		Upto: d.consul.Dump().Index, Counts: counts, Items: items}.Encode()))
}

// index is the ModifyIndex of a key.
func (d *desk) index(key string) uint64 {
	d.t.Helper()
	e, _, err := d.kv.Get("service/demo/"+key, nil)
	d.must(err)
	return e.ModifyIndex
}

// session is the one that locks a key.
func (d *desk) session(key string) string {
	d.t.Helper()
	e, _, err := d.kv.Get("service/demo/"+key, nil)
	d.must(err)
	return e.Session
}

// led is a service with a leader n1 and an item w, which n1 has.
func (d *desk) led() {
	d.lock("leader", "n1")
	d.lock("members/n1", "alive")
	d.put("workload/w", "")
	d.put("assignments/n1/w", `{"s":"own","why":"balance"}`)
}

// free is the same with an item that nobody has.
func (d *desk) unowned() {
	d.lock("leader", "n1")
	d.lock("members/n1", "alive")
	d.put("workload/w", "")
}

// gone is the same with an owner n2 that has vanished; waited is what the leader notes of it.
func (d *desk) gone(ack string, waited, of time.Duration) {
	d.unowned()
	d.put("assignments/n2/w", `{"s":"own"}`)
	d.put("acks/n2", ack)
	note := protocol.LeaderState{By: d.session("leader"), At: time.Now().UTC()}
	if waited >= 0 {
		note.Absent = map[string]protocol.Waited{"n2": {Ack: d.index("acks/n2"), Session: "x",
			For: waited, Of: of}}
	}
	d.put("leader_state", string(note.Encode()))
}

const goneAck = `{"n":3,"sid":"0d8f3a2e-0000-4000-8000-000000000000","ttl":10000000000}`

// stateCases has a service for each state of the item w, and for each of its causes.
var stateCases = map[string]struct {
	given func(d *desk)
	want  operator.ItemStatus // Why is a part of the sentence; Until counts from now
	until time.Duration
}{
	"running": {func(d *desk) {
		d.led()
		d.told("n1", map[string]int{"running": 1})
	}, operator.ItemStatus{State: operator.ItemRunning, Member: "n1", Reason: "balance"}, 0},
	"running, and restarted before": {func(d *desk) {
		d.led()
		d.told("n1", map[string]int{"running": 1}, protocol.WorkReport{ID: "w", State: "running",
			Restarts: 2, Exit: "exit status 1"})
	}, operator.ItemStatus{State: operator.ItemRunning, Member: "n1", Restarts: 2,
		LastExit: "exit status 1"}, 0},
	"starting": {func(d *desk) {
		d.led()
		d.told("n1", map[string]int{"starting": 1}, protocol.WorkReport{ID: "w",
			State: "starting"})
	}, operator.ItemStatus{State: operator.ItemStarting, Member: "n1", Why: "has not begun"}, 0},
	"granted after its owner's summary": {func(d *desk) {
		d.lock("leader", "n1")
		d.lock("members/n1", "alive")
		d.told("n1", nil)
		d.put("workload/w", "")
		d.put("assignments/n1/w", `{"s":"own"}`)
	}, operator.ItemStatus{State: operator.ItemStarting, Member: "n1", Why: "granted a moment ago"}, 0},
	"crash-looping": {func(d *desk) {
		d.led()
		d.told("n1", map[string]int{"crash-looping": 1}, protocol.WorkReport{ID: "w",
			State: "crash-looping", Restarts: 7, Exit: "exit status 1"})
	}, operator.ItemStatus{State: operator.ItemLooping, Member: "n1", Restarts: 7,
		LastExit: "exit status 1", Why: "again and again"}, 0},
	"quarantined": {func(d *desk) {
		d.unowned()
		d.put("quarantine/w", `{"failed":[{"m":"n1","exit":"exit status 1"},{"m":"n2",`+
			`"exit":"exit status 2"}],"since":1}`)
	}, operator.ItemStatus{State: operator.ItemQuarantined, LastExit: "exit status 2",
		Why: "too often at n1 and at n2"}, 0},
	"quarantined where there was no other member": {func(d *desk) {
		d.unowned()
		d.put("quarantine/w", `{"failed":[{"m":"n1"}],"since":1}`)
	}, operator.ItemStatus{State: operator.ItemQuarantined,
		Why: "too often at n1, and no other member takes it"}, 0},
	"quarantined, and taken out by an order": {func(d *desk) {
		d.unowned()
		d.put("quarantine/w", `{"failed":[{"m":"n1"}],"since":1}`)
		d.put("control/restart/items/w", "now")
	}, operator.ItemStatus{State: operator.ItemFree, Cause: operator.CausePlacing,
		Why: "about to be given"}, 0},
	"it failed elsewhere": {func(d *desk) {
		d.led()
		d.put("quarantine/w", `{"failed":[{"m":"n2"}]}`)
		d.told("n1", map[string]int{"running": 1})
	}, operator.ItemStatus{State: operator.ItemRunning, Member: "n1", Reason: "balance"}, 0},
	"it fails too often": {func(d *desk) {
		d.led()
		d.told("n1", map[string]int{"crash-looping": 1}, protocol.WorkReport{ID: "w",
			State: "crash-looping", Over: true, Restarts: 7, Exit: "exit status 1"})
	}, operator.ItemStatus{State: operator.ItemLooping, Member: "n1", Restarts: 7,
		LastExit: "exit status 1", Why: "the leader takes it away"}, 0},
	"it is told to stop, to be tried elsewhere": {func(d *desk) {
		d.led()
		d.put("assignments/n1/w", `{"s":"rel","why":"failing"}`)
		d.told("n1", map[string]int{"stopping": 1})
	}, operator.ItemStatus{State: operator.ItemStopping, Member: "n1", Reason: "failing",
		Why: "tried at another member"}, 0},
	"stopping": {func(d *desk) {
		d.led()
		d.put("assignments/n1/w", `{"s":"rel"}`)
		d.told("n1", map[string]int{"stopping": 1})
	}, operator.ItemStatus{State: operator.ItemStopping, Member: "n1", Why: "on its way"}, 0},
	"its owner leaves": {func(d *desk) {
		d.lock("leader", "n1")
		d.lock("members/n1", `{"status":"leaving"}`)
		d.put("workload/w", "")
		d.put("assignments/n1/w", `{"s":"own"}`)
		d.told("n1", map[string]int{"stopping": 1}, protocol.WorkReport{ID: "w",
			State: "stopping"})
	}, operator.ItemStatus{State: operator.ItemStopping, Member: "n1", Why: "told to stop"}, 0},
	"its owner does not tell": {(*desk).led,
		operator.ItemStatus{State: operator.ItemOwned, Member: "n1", Why: "has not told"}, 0},
	"its owner's former process has told": {func(d *desk) {
		d.led()
		d.put("states/n1", `{"sid":"0d8f3a2e-0000-4000-8000-000000000000","n":1,"upto":1000,`+
			`"at":"2000-01-01T00:00:00Z","counts":{"running":1}}`)
	}, operator.ItemStatus{State: operator.ItemOwned, Member: "n1", Why: "has not told"}, 0},
	"its owner says more than this version knows": {func(d *desk) {
		d.led()
		d.told("n1", map[string]int{"dancing": 1}, protocol.WorkReport{ID: "w", State: "dancing"})
	}, operator.ItemStatus{State: operator.ItemOwned, Member: "n1", Why: "dancing"}, 0},
	"one of many that its owner does not name": {func(d *desk) {
		d.led()
		d.told("n1", map[string]int{"running": 1, "crash-looping": 200})
	}, operator.ItemStatus{State: operator.ItemOwned, Member: "n1", Why: "names a part"}, 0},
	"waiting for its owner's former process": {func(d *desk) {
		d.lock("leader", "n1")
		d.put("workload/w", "")
		d.put("assignments/n1/w", `{"s":"own"}`)
		d.lock("members/n1", "alive")
		d.put("acks/n1", `{"n":1,"sid":"`+d.session("members/n1")+`","ttl":10000000000}`)
		d.put("states/n1", string(protocol.WorkSummary{Session: d.session("members/n1"),
			ClearAt: time.Now().Add(7 * time.Second), Upto: 1000,
			Counts: map[string]int{"waiting": 1}}.Encode()))
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n1", Cause: operator.CausePredecessor,
		Why: "former process"}, 7 * time.Second},
	"waiting for a lost member": {func(d *desk) {
		d.gone(goneAck, 4*time.Second, 12*time.Second)
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseLost,
		Why: "n2 is gone"}, 8 * time.Second},
	"waiting, and the leader is of an older version": {func(d *desk) {
		d.gone(goneAck, 4*time.Second, 0)
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseLost},
		6 * time.Second},
	"waiting, and the leader has not noticed": {func(d *desk) {
		d.gone(goneAck, -1, 0)
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseLost,
		Why: "about to find out"}, 0},
	"waiting, and the note is another absence's": {func(d *desk) {
		d.gone(goneAck, 4*time.Second, 12*time.Second)
		d.put("acks/n2", strings.Replace(goneAck, "3", "4", 1))
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseLost,
		Why: "about to find out"}, 0},
	"waiting, and pinned to a member that is not there": {func(d *desk) {
		d.gone(goneAck, 4*time.Second, 12*time.Second)
		d.put("control/pins/w", "n9")
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CausePinned,
		Pinned: "n9", Why: "n2 is gone, and it is pinned to n9, which is not registered"}, 0},
	"waiting, and pinned to a member that is there": {func(d *desk) {
		d.gone(goneAck, 4*time.Second, 12*time.Second)
		d.put("control/pins/w", "n1")
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseLost,
		Pinned: "n1", Why: "n2 is gone"}, 8 * time.Second},
	"waiting, and every other member is full": {func(d *desk) {
		d.gone(goneAck, 4*time.Second, 12*time.Second)
		d.put("members/n1", `{"status":"alive","capacity":1}`) // it stays locked
		d.put("assignments/n1/v", "own")
		d.put("workload/v", "")
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseNoRoom,
		Why: "n2 is gone, and every member that takes items is full"}, 0},
	"waiting for a member that will be back": {func(d *desk) {
		d.gone(strings.TrimSuffix(goneAck, "}")+
			`,"clear":true,"stopped":true,"keep":60000000000}`, time.Second, time.Minute)
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseKept,
		Why: "to be back"}, 59 * time.Second},
	"waiting, and nobody leads": {func(d *desk) {
		d.lock("members/n1", "alive")
		d.put("workload/w", "")
		d.put("assignments/n2/w", `{"s":"own"}`)
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseNoLeader,
		Why: "nobody leads"}, 0},
	"waiting, and the leader holds back": {func(d *desk) {
		d.gone(goneAck, time.Second, time.Minute)
		d.put("leader_state", string(protocol.LeaderState{By: d.session("leader"),
			Brake: "most of the members are gone"}.Encode()))
	}, operator.ItemStatus{State: operator.ItemWaiting, Member: "n2", Cause: operator.CauseBrake,
		Why: "most of the members are gone"}, 0},
	"free, in a moment": {(*desk).unowned,
		operator.ItemStatus{State: operator.ItemFree, Cause: operator.CausePlacing}, 0},
	"free, and nobody leads": {func(d *desk) {
		d.put("leader", "n1") // locked by nobody
		d.lock("members/n1", "alive")
		d.put("workload/w", "")
	}, operator.ItemStatus{State: operator.ItemFree, Cause: operator.CauseNoLeader,
		Why: "nobody leads"}, 0},
	"free, and frozen": {func(d *desk) {
		d.unowned()
		d.put("control/freeze", "")
	}, operator.ItemStatus{State: operator.ItemFree, Cause: operator.CauseFrozen, Why: "thaw"}, 0},
	"free, and the leader holds back": {func(d *desk) {
		d.unowned()
		d.put("leader_state", string(protocol.LeaderState{By: d.session("leader"),
			Brake: "too much is gone"}.Encode()))
	}, operator.ItemStatus{State: operator.ItemFree, Cause: operator.CauseBrake,
		Why: "too much is gone"}, 0},
	"free, and every member is drained": {func(d *desk) {
		d.unowned()
		d.put("control/drain/n1", "")
	}, operator.ItemStatus{State: operator.ItemFree, Cause: operator.CauseNoMembers, Why: "drained"}, 0},
	"free, and pinned to nobody": {func(d *desk) {
		d.unowned()
		d.put("control/pins/w", "n9")
	}, operator.ItemStatus{State: operator.ItemFree, Cause: operator.CausePinned, Pinned: "n9",
		Why: "n9, which is not registered"}, 0},
	"free, and pinned to a drained member": {func(d *desk) {
		d.unowned()
		d.lock("members/n2", "alive")
		d.put("control/pins/w", "n2")
		d.put("control/drain/n2", "")
	}, operator.ItemStatus{State: operator.ItemFree, Cause: operator.CausePinned, Pinned: "n2",
		Why: "takes no items"}, 0},
	"free, and every member is full": {func(d *desk) {
		d.lock("leader", "n1")
		d.lock("members/n1", `{"status":"alive","capacity":1}`)
		d.put("workload/v", "")
		d.put("workload/w", "")
		d.put("assignments/n1/v", "own")
	}, operator.ItemStatus{State: operator.ItemFree, Cause: operator.CauseNoRoom, Why: "full"}, 0},
	"removed, and not given up yet": {func(d *desk) {
		d.lock("leader", "n1")
		d.lock("members/n1", "alive")
		d.put("assignments/n1/w", "own")
		d.told("n1", map[string]int{"running": 1})
	}, operator.ItemStatus{State: operator.ItemRunning, Member: "n1", Removed: true}, 0},
}

func TestEachItemHasTheStateThatConsulTells(t *testing.T) {
	for name, c := range stateCases {
		t.Run(name, func(t *testing.T) {
			operate(t, func(t *testing.T, d *desk) {
				c.given(d)
				now := time.Now()
				status, items, err := d.op.Items(t.Context())
				d.must(err)
				n := 0
				for _, count := range status.Work.States {
					n += count
				}
				if n != status.Work.Total {
					t.Errorf("%d items, of which these have a state: %v", status.Work.Total,
						status.Work.States)
				}
				for _, i := range items {
					if i.ID == "w" {
						compare(t, now, i, c.want, c.until)
						return
					}
				}
				t.Fatalf("w is not among %+v", items)
			})
		})
	}
}

func compare(t *testing.T, now time.Time, got, want operator.ItemStatus, until time.Duration) {
	t.Helper()
	if got.State != want.State || got.Member != want.Member || got.Cause != want.Cause ||
		got.Restarts != want.Restarts || got.LastExit != want.LastExit ||
		got.Pinned != want.Pinned || got.Removed != want.Removed {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if !strings.Contains(got.Why, want.Why) {
		t.Errorf("why: %q, which does not hold %q", got.Why, want.Why)
	}
	if want.Reason != "" && got.Reason != want.Reason {
		t.Errorf("reason: %q, want %q", got.Reason, want.Reason)
	}
	if left := got.Until.Sub(now); got.Until.IsZero() != (until == 0) ||
		until != 0 && (left-until).Abs() > time.Second {
		t.Errorf("until %v, which is in %v; want %v", got.Until, left, until)
	}
}

// What a member told of an item before it was to give it up says not since when it is to.
func TestAnItemThatLoopedIsNotStoppingSinceThen(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		d.lock("leader", "n1")
		d.lock("members/n1", "alive")
		d.put("workload/w", "")
		d.put("assignments/n1/w", `{"s":"rel","why":"drain"}`)
		d.told("n1", map[string]int{"crash-looping": 1}, protocol.WorkReport{ID: "w",
			State: "crash-looping", Since: time.Now().Add(-time.Hour), Restarts: 7})
		e, err := d.op.Explain(t.Context(), "w")
		d.must(err)
		if e.State != operator.ItemStopping || !e.Since.IsZero() || e.Restarts != 7 {
			t.Errorf("%s since %v, %d restarts", e.State, e.Since, e.Restarts)
		}
	})
}

// One more member of the same size is no help to an item that is heavier than that.
func TestAnItemThatIsTooHeavySaysSo(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		d.lock("leader", "n1")
		d.lock("members/n1", `{"status":"alive","capacity":8}`)
		d.lock("members/n2", `{"status":"alive","capacity":8}`)
		d.must(d.op.AddWork(t.Context(), operator.WorkInput{ID: "v", Weight: 2},
			operator.WorkInput{ID: "w", Weight: 9}))
		d.put("assignments/n1/v", "own")
		e, err := d.op.Explain(t.Context(), "w")
		d.must(err)
		want := "it weighs 9, and no member that takes items has so much room: n2 has the most, 8"
		if e.Cause != operator.CauseNoRoom || e.Why != want {
			t.Errorf("%s: %q, want %q", e.Cause, e.Why, want)
		}
	})
}

// What a member counts and does not name is counted with the others.
func TestItemsThatAreNotNamedAreCounted(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		d.lock("leader", "n1")
		d.lock("members/n1", "alive")
		for n := range 300 {
			d.put(fmt.Sprintf("workload/w%03d", n), "")
			d.put(fmt.Sprintf("assignments/n1/w%03d", n), "own")
		}
		d.told("n1", map[string]int{"running": 50, "crash-looping": 250}, protocol.WorkReport{
			ID: "w007", State: "crash-looping"})
		status, err := d.op.Status(t.Context())
		d.must(err)
		want := map[operator.ItemState]int{operator.ItemRunning: 50, operator.ItemLooping: 250}
		for _, got := range []map[operator.ItemState]int{status.Work.States,
			status.Members[0].States} {
			if len(got) != 2 || got[operator.ItemRunning] != 50 || got[operator.ItemLooping] != 250 {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		if got := status.Problem(); got != "250 items loop: w007, …" {
			t.Errorf("the problem is %q", got)
		}
	})
}

// A member that was drained has nothing any more, and tells of that a moment later.
func TestAMemberThatHasNothingMayCountItemsStill(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		d.led()
		d.lock("members/n2", "alive")
		d.told("n2", map[string]int{"stopping": 300})
		status, err := d.op.Status(t.Context())
		d.must(err)
		if n := len(status.Members[1].States); n > 0 {
			t.Errorf("it has %v", status.Members[1].States)
		}
	})
}

// What a lost member had may be pinned to members that are not there: each has its own sentence.
func TestTheSentencesOfItemsThatWaitNameThem(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		d.gone(goneAck, 4*time.Second, 12*time.Second)
		for _, id := range []string{"x", "y", "z"} {
			d.put("workload/"+id, "")
			d.put("assignments/n2/"+id, `{"s":"own"}`)
		}
		d.put("control/pins/x", "n8")
		d.put("control/pins/y", "n9")
		status, err := d.op.Status(t.Context())
		d.must(err)
		var got []string
		for _, p := range status.Problems {
			text, _, _ := strings.Cut(p.Text, ", until ")
			got = append(got, text)
		}
		want := []string{
			"2 items wait (w, z): n2 is gone, and its lease may not be over",
			"1 item waits (x): n2 is gone, and it is pinned to n8, which is not registered",
			"1 item waits (y): n2 is gone, and it is pinned to n9, which is not registered",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
