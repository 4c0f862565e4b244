package actors_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
)

func TestASecondProcessWithTheSameIdRefuses(t *testing.T) {
	for _, liveness := range []actors.Liveness{actors.Alive, actors.Unknown} { // elsewhere: unknown
		run(t, func(c *cluster) {
			three(c, 9)
			first := c.members["n1"]
			second := c.start("n1", func(cfg *actors.Config) {
				if liveness == actors.Alive {
					cfg.Liveness = func(actors.Process) actors.Liveness { return liveness }
				}
			})
			<-second.done
			c.members["n1"] = first
			if !errors.Is(second.err, actors.ErrIDTaken) || !strings.Contains(second.err.Error(),
				"n1.test") {
				t.Errorf("the second ended with %v, want ErrIDTaken naming the first's host",
					second.err)
			}
			if n := c.totalStarts(); n != 9 {
				t.Errorf("%d starts of 9 items: the second disturbed the first", n)
			}
		})
	}
}

// onCopy runs a member on one of two machines that were resumed from one snapshot: each finds no
// process of the other, and takes it for dead.
func onCopy(pid int) option {
	return func(cfg *actors.Config) {
		cfg.Process = &actors.Process{Instance: fmt.Sprint(pid, "-", time.Now().UnixNano()),
			Host: "vm", BootID: "b", PIDNamespace: "1", PID: pid, StartTime: 1}
		cfg.Liveness = func(p actors.Process) actors.Liveness {
			if p.PID == pid {
				return actors.Alive
			}
			return actors.Dead
		}
	}
}

// A copy ends the session of the first machine's member, for no such process is there. The first
// one lives, and says so: from then on neither believes that the other is dead, nor do their
// successors.
func TestTwoMachinesOfOneSnapshotTakeTheIDOnce(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		first := c.start("vm", onCopy(1))
		c.await("its share", 20*time.Second, c.balanced(9))
		c.start("vm", onCopy(2))
		var sessions []string
		until := time.Now().Add(5 * time.Minute)
		refused := 0
		for ; time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			if s := c.recordOf("vm").Session; s != "" && !slices.Contains(sessions, s) {
				sessions = append(sessions, s)
			}
			select {
			case <-first.done:
				if refused++; !errors.Is(first.err, actors.ErrIDTaken) {
					t.Errorf("it ended with %v, want ErrIDTaken", first.err)
				}
				second := c.members["vm"]
				first = c.start("vm", onCopy(1)) // as systemd does
				c.members["vm"] = second
			default:
			}
		}
		if refused == 0 {
			t.Error("the id is refused to neither")
		}
		if len(sessions) != 2 {
			t.Errorf("the id was held by %d sessions, want 2", len(sessions))
		}
		first.cancel()
		<-first.done
	})
}

// Consul has the ack of a process that was here before, and has ended, when it comes back from a
// snapshot.
func TestARestoreOfConsulMakesNoMachineACopy(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		c.start("vm", onCopy(1))
		c.await("its share", 20*time.Second, c.balanced(9))
		past := c.consul.Snapshot()
		c.kill("vm")
		c.start("vm", onCopy(2))
		c.await("its share again", 40*time.Second, c.balanced(9))
		c.must(c.consul.Restore(past))
		time.Sleep(time.Second)
		c.mu.Lock()
		clear(c.judge.Tokens)
		c.mu.Unlock()
		time.Sleep(time.Minute)
		c.await("its share after the restore", time.Minute, c.balanced(9))
		c.neverCopied("vm")
	})
}

// A machine that says that it may be a copy waits for each lease.
func TestOnACopiedMachineALeaseIsWaitedFor(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		copied := func(cfg *actors.Config) { cfg.Copied = true }
		first := c.start("vm", onCopy(1), copied)
		c.await("its share", 20*time.Second, c.balanced(9))
		session := first.c.Session().Get().ID
		first.net.Freeze()
		_, err := c.client.Session().Destroy(session, nil)
		c.must(err)
		second := c.start("vm", onCopy(2), copied)
		c.await("all work", time.Minute, func() bool {
			m := second.c.Membership().Get()
			return m.Phase == facts.Registered && m.ClearAt.IsZero() && c.balanced(9)()
		})
		first.net.Thaw()
		c.await("its end", 2*time.Minute, first.over)
		if !errors.Is(first.err, actors.ErrIDTaken) || second.err != nil {
			t.Errorf("they ended with %v and %v, want one ErrIDTaken", first.err, second.err)
		}
	})
}

// A second process here that has taken the id of one that stood still is seen to live: the machine
// runs once.
func TestTwoProcessesOfAMachineMakeItNoCopy(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		seen := func(cfg *actors.Config) {
			cfg.Liveness = func(actors.Process) actors.Liveness { return actors.Alive }
		}
		first := c.start("vm", onCopy(1), seen)
		c.await("its share", 20*time.Second, c.balanced(9))
		session := first.c.Session().Get().ID
		first.net.Freeze()
		_, err := c.client.Session().Destroy(session, nil)
		c.must(err)
		second := c.start("vm", onCopy(2), seen)
		c.await("its share again", time.Minute, func() bool {
			return second.c.Membership().Get().Phase == facts.Registered && c.balanced(9)()
		})
		first.net.Thaw()
		c.await("its end", 2*time.Minute, first.over)
		c.neverCopied("vm")
	})
}

// over tells whether a member has ended.
func (m *member) over() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// neverCopied holds that no process has said that a member's machine runs twice.
func (c *cluster) neverCopied(id string) {
	c.t.Helper()
	e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Ack(id), store.Consistent)
	c.must(err)
	if ack, _, err := c.store.Keys().ReadAck(e); err != nil || ack.Copied || ack.By.PID != 2 {
		c.t.Errorf("its ack is %s, %v", e.Value, err)
	}
}

// recordOf reads a member's record.
func (c *cluster) recordOf(id string) store.Entry {
	e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Member(id), store.Consistent)
	c.must(err)
	return e
}
