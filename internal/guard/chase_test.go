//go:build linux

package guard

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// The number of a dead guard process has passed to a stranger that leads a session, as a login
// shell does.
func TestWhatIsChasedIsNoStrangersSession(t *testing.T) {
	stranger := exec.Command("sh", "-c", "sleep 1000; exit 3")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	defer func() {
		_ = syscall.Kill(-stranger.Process.Pid, syscall.SIGKILL)
		<-ended
	}()
	testkit.Eventually(t, "its child", func() bool {
		all, err := exec.Command("ps", "-o", "pid=", "--ppid",
			strconv.Itoa(stranger.Process.Pid)).Output()
		return err == nil && len(all) > 0
	})
	g := New(Config{})
	w := &watch{g: g, l: newLink(nil, nil, nil), token: "1.1.1.dead",
		cmd: &exec.Cmd{Process: stranger.Process}}
	g.leave(w)
	g.chase(0)
	select {
	case err := <-ended:
		ended <- err
		t.Errorf("a stranger's child was killed, and the stranger ended with %v", err)
	case <-time.After(200 * time.Millisecond):
	}
}

// What is said to be killed has had its signal, also what has left the group.
func TestKilledIsSaidOfACommandWhenAllOfItIs(t *testing.T) {
	killed := false
	cr := newCommandRunner(newToken(), func(e event) { killed = killed || e.Kind == evKilled })
	*cr.lease = makeLease(time.Now().Add(time.Hour), time.Second)
	cr.do(command{Kind: cmdStart, ID: 1, Argv: []string{"/bin/sh", "-c", "sleep 1000"},
		Epoch: cr.lease.Epoch})
	r := cr.runs[1]
	cr.kill(r)
	if killed {
		t.Error("it is said before anybody has looked for what left the group")
	}
	testkit.Eventually(t, "the end", func() bool {
		cr.reap()
		cr.enforce()
		cr.settleEnded()
		return len(cr.runs) == 0
	})
}

// leftover is a process of that command of a dead guard process.
func leftover(t *testing.T, token string, id uint64) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{fmt.Sprintf("%s=%s/%d", markerEnv, token, id)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	testkit.Eventually(t, "its program", func() bool {
		got, _, err := commandOf(cmd.Process.Pid, token)
		return err == nil && got == id
	})
	return cmd
}

// deadWatch is that of a guard process that has ended.
func deadWatch(t *testing.T) *watch {
	t.Helper()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	return &watch{g: New(Config{}), l: newLink(nil, nil, nil), token: newToken(), cmd: gone}
}

// Whoever gives up ends, and what could have been killed goes on.
func TestNobodyGivesUpWhileHeCannotLook(t *testing.T) {
	w := deadWatch(t)
	synctest.Test(t, func(t *testing.T) {
		see := Unseeing(t)
		ended := make(chan error, 1)
		go func() { ended <- w.clearAway() }()
		time.Sleep(10 * stuckAfter)
		select {
		case err := <-ended:
			t.Fatalf("it has ended with %v", err)
		default:
		}
		see()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v when it could look", err)
		}
	})
}

// A round may miss a process that another one passes its work on to.
func TestAnItemThatIsChasedEndsWhenTwoRoundsMeetNothingOfIt(t *testing.T) {
	w := deadWatch(t)
	start := command{Kind: cmdStart}
	one, two := w.l.start(start, w.g.lease), w.l.start(start, w.g.lease)
	w.left = map[uint64]bool{one.id: true, two.id: true}
	w.g.leave(w)
	for round := range 2 {
		leftover(t, w.token, two.id)
		w.g.chase(0)
		select {
		case <-one.done:
			if round == 0 {
				t.Error("it has ended after one round")
			}
		default:
			if round == 1 {
				t.Error("it has not ended after two rounds")
			}
		}
	}
	select {
	case <-two.done:
		t.Error("the other one has ended beside its process")
	default:
	}
}

// What a sweep has killed may have started something that it has not met.
func TestASweepIsDoneWhenItMeetsNothingNew(t *testing.T) {
	var s sweep
	token := newToken()
	sweeps := func() {
		s.begin(token, []uint64{1}, func(int, uint64) bool { return false })
		testkit.Eventually(t, "the end of the sweep", func() bool { return !s.busy.Load() })
	}
	for range 3 {
		_ = leftover(t, token, 1)
		if sweeps(); s.result().allOf(1, nil) {
			t.Fatal("it is done although it has met a process that had no SIGKILL yet")
		}
	}
	testkit.Eventually(t, "a whole round without", func() bool {
		sweeps()
		return s.result().allOf(1, nil)
	})
	if s.forget(1); s.result().allOf(1, nil) {
		t.Error("it is kept of a command that has ended")
	}
}
