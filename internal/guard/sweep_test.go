//go:build linux

package guard

import (
	"syscall"
	"testing"
	"time"
)

// A margin leaves time for one look on a large host, not for two.
func TestASweepIsDoneAtOnceWhenAllItMeetsWasKilledBefore(t *testing.T) {
	var s sweep
	token := newToken()
	met := leftover(t, token, 1).Process.Pid
	_ = leftover(t, token, 2)
	s.look(token, []uint64{1, 2}, func(pid int, id uint64) bool { return pid == met && id == 1 })
	if r := s.result(); !r.allOf(1, []int{met}) || r.allOf(2, nil) {
		t.Errorf("done with what was killed before: %v, with what was not: %v",
			r.allOf(1, []int{met}), r.allOf(2, nil))
	}
}

// Where processes begin and end all the time no round is whole.
func TestARoundThatWasNotWholeCountsIfNoStrayIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		whole  bool
		strays []int
		want   bool
	}{
		{false, nil, true},
		{false, []int{7}, true},
		{false, []int{7, 8}, false},
		{true, []int{8}, true},
	} {
		s := swept{map[uint64]bool{1: c.whole}, map[int]uint64{7: 1}}
		if got := s.allOf(1, c.strays); got != c.want {
			t.Errorf("whole %v, strays %v: %v, want %v", c.whole, c.strays, got, c.want)
		}
		if s.allOf(2, nil) {
			t.Error("another command is done, too")
		}
	}
}

// sweeper is a command runner with one command, whose lease is within its margin of its end.
func sweeper(t *testing.T) (*commandRunner, *run) {
	t.Helper()
	cr := newCommandRunner(newToken(), func(event) {})
	cr.send = func(int, syscall.Signal) error { return nil }
	*cr.lease = makeLease(time.Now().Add(time.Hour), 100*time.Minute)
	r := &run{id: 1, timeout: time.Hour, lease: cr.lease, leaderGone: true, groupGone: true}
	cr.runs[1] = r
	return cr, r
}

// The first look takes longest, and there is no time for it after SIGKILL.
func TestWhatRunsOnAHostIsKnownBeforeCommandsAreKilled(t *testing.T) {
	cr, r := sweeper(t)
	cr.enforce()
	<-cr.sweep.ended
	if r.killed || len(cr.sweep.foreign) == 0 {
		t.Errorf("killed: %v; %d processes are known", r.killed, len(cr.sweep.foreign))
	}
	_ = leftover(t, cr.token, 1)
	cr.sweep.look(cr.token, []uint64{1}, cr.reached())
	if len(cr.sweep.result().sent) != 1 {
		t.Error("a process that has begun since is not met")
	}
}

func TestALookThatIsStillUnderWayPutsNoneOff(t *testing.T) {
	cr, r := sweeper(t)
	cr.kill(r)
	due := time.Now().Add(-time.Millisecond)
	r.sweepAt = due
	cr.sweep.busy.Store(true)
	cr.enforce()
	if !r.sweepAt.Equal(due) || r.sweepPause != sweepAfter {
		t.Errorf("the look is put off until %v, and the next one by %v", r.sweepAt, r.sweepPause)
	}
	cr.sweep.busy.Store(false)
	cr.enforce()
	<-cr.sweep.ended
	if !r.sweepAt.After(due) {
		t.Error("there was none")
	}
}
