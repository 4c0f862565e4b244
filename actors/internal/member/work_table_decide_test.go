package member

import (
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// What is decided about one item: by its job here, its key, and what is known of this member.
func TestTheWorkTableDecidesByKeyJobAndLease(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	later := now.Add(3 * time.Second)
	own := facts.Assignment{Session: "s", CreateIndex: 20, ModifyIndex: 20}
	called := facts.Assignment{Session: "s", CreateIndex: 20, ModifyIndex: 25, Releasing: true}
	inherited := facts.Assignment{Session: "old", CreateIndex: 5, ModifyIndex: 5}
	running := func() *job { return &job{phase: facts.Running, grant: 20, session: "s"} }
	stopping := func() *job { return &job{phase: facts.Stopping, grant: 20, session: "s"} }
	stopped := func(final bool) *job {
		return &job{phase: facts.Stopped, grant: 20, session: "s", final: final}
	}
	type change func(*snapshot, *workTable)
	notClear := func(s *snapshot, _ *workTable) { s.member.ClearAt = later }
	noLease := func(s *snapshot, _ *workTable) { s.lease = false }
	oldView := func(s *snapshot, _ *workTable) { s.view.Index = 9 }
	stops := func(s *snapshot, _ *workTable) { s.stop = true }
	stopsAndKeeps := func(s *snapshot, _ *workTable) { s.stop, s.keep = true, true }
	for name, c := range map[string]struct {
		key    *facts.Assignment
		job    *job
		change change
		want   string    // start, stop, release, or nothing
		next   time.Time // when to look again
		final  bool      // of the job, if it is still in the table
		gone   bool      // there is no job any more
		told   bool      // the leader is to be told that a key vanished
	}{
		"a grant is started": {key: &own, want: "start", gone: true},
		"not before its soak is over": {key: &own, change: func(s *snapshot, _ *workTable) {
			s.soak = 3 * time.Second
		}, next: later, gone: true},
		"one that was taken over is not soaked": {key: &facts.Assignment{Session: "s",
			CreateIndex: 20, ModifyIndex: 20, AtOnce: true}, change: func(s *snapshot,
			_ *workTable) {
			s.soak = 3 * time.Second
		}, want: "start", gone: true},
		"not without a lease":     {key: &own, change: noLease, gone: true},
		"not by a view of before": {key: &own, change: oldView, gone: true},
		"not by a member without work": {key: &own, change: func(s *snapshot, _ *workTable) {
			s.idle = true
		}, gone: true},
		"not by a member that leaves": {key: &own, change: func(s *snapshot, _ *workTable) {
			s.member.Phase = facts.Leaving
		}, gone: true},
		"not one of another session": {key: &facts.Assignment{Session: "x", CreateIndex: 20,
			ModifyIndex: 20}, gone: true},
		"not while it is skipped": {key: &own, change: func(_ *snapshot, t *workTable) {
			t.skipped["w"] = later
			t.seen["w"] = now
		}, next: later, gone: true},
		"an inherited one is started": {key: &inherited, want: "start", gone: true},
		"when it is clear": {key: &inherited, change: notClear, next: later,
			gone: true},
		"one called back is released":  {key: &called, want: "release", gone: true},
		"a member that stops releases": {key: &own, change: stops, want: "release", gone: true},
		"or keeps its items":           {key: &own, change: stopsAndKeeps, gone: true},
		"the last run was the last": {key: &own, change: func(_ *snapshot, t *workTable) {
			t.record = 10
			t.runs["w"] = &runs{grant: 20, last: facts.Runs - 1}
		}, want: "release", gone: true},
		"a grant is not used twice": {key: &own, change: func(_ *snapshot, t *workTable) {
			t.record = 10
			t.released["w"] = release{grant: 20}
		}, want: "release", gone: true},
		"a late view is no order": {key: &own, change: func(_ *snapshot, t *workTable) {
			t.record = 10
			t.released["w"] = release{grant: 20, index: 20, at: now}
		}, next: now.Add(10 * time.Second), gone: true},
		"work goes on":                 {key: &own, job: running()},
		"also by a view of before":     {key: &called, job: running(), change: oldView},
		"it is stopped to be released": {key: &called, job: running(), want: "stop", final: true},
		"it is stopped with the lease": {key: &own, job: running(), change: noLease,
			want: "stop"},
		"and when its key is gone": {job: running(), want: "stop"},
		"and when it was granted anew": {key: &facts.Assignment{Session: "s", CreateIndex: 30,
			ModifyIndex: 30}, job: running(), want: "stop"},
		"and when its member stops": {key: &own, job: running(), change: stops, want: "stop",
			final: true},
		"not to be released if it keeps": {key: &own, job: running(), change: stopsAndKeeps,
			want: "stop"},
		"an order comes while it stops": {key: &called, job: stopping(), final: true},
		"what has stopped is released":  {key: &called, job: stopped(false), want: "release"},
		"even if it is called back": {key: &own, job: stopped(true), want: "release",
			final: true},
		"not before it is clear": {key: &facts.Assignment{Session: "old", CreateIndex: 5,
			ModifyIndex: 5, Releasing: true},
			job: stopped(true), change: notClear, next: later, final: true},
		"or it resumes": {key: &own, job: stopped(false), want: "start",
			gone: true},
		"a key that vanished is told of": {job: stopped(false), gone: true, told: true},
		"one of an earlier registration": {key: &called, job: &job{phase: facts.Stopped,
			session: "old"}, want: "release", gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			table, items := newWorkTable(), map[string]facts.Assignment{}
			if c.key != nil {
				items["w"] = *c.key
			}
			if c.job != nil {
				table.items["w"] = c.job
			}
			s := snapshot{now: now, session: facts.Session{ID: "s"}, lease: true,
				late:   10 * time.Second,
				member: facts.Membership{Phase: facts.Registered, Session: "s", Index: 10},
				view:   facts.Assignments{Index: 30, Items: messages.TableOf(items)}}
			if c.change != nil {
				c.change(&s, table)
			}
			d := table.decide(s)
			for what, ids := range map[string][]string{"start": d.start, "stop": d.stop,
				"release": d.release} {
				if slices.Contains(ids, "w") != (what == c.want) {
					t.Errorf("%s: %q, want %q", what, ids, c.want)
				}
			}
			if !d.next.Equal(c.next) {
				t.Errorf("looks again at %v, want %v", d.next, c.next)
			}
			if j := table.items["w"]; (j == nil) != c.gone || j != nil && j.final != c.final {
				t.Errorf("the job is %+v, want gone %v, final %v", j, c.gone, c.final)
			}
			if table.vanished != c.told {
				t.Errorf("to be told: %v, want %v", table.vanished, c.told)
			}
		})
	}
}
