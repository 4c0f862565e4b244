//go:build linux

package guard

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"
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
