//go:build linux

package guard_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/guard"
)

// A /proc of another process namespace has other numbers: what is looked up in it would be sent
// signals that are for others.
func TestNothingIsGuardedByTheProcOfAnotherNamespace(t *testing.T) {
	for name, flags := range map[string]uintptr{"its own": 0, "another": syscall.CLONE_NEWPID} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", "check")
			cmd.Env = append(os.Environ(), modeEnv+"=check")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
			if flags != 0 && os.Geteuid() != 0 {
				cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := strings.TrimSpace(string(out)); (got == "<nil>") != (flags == 0) ||
				flags != 0 && !strings.Contains(got, "mount") {
				t.Errorf("%s", got)
			}
		})
	}
}

// A guard process is hidden from its own user, too, if that one may not read its program.
func TestWhoIsHiddenIsNotDead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a /proc that hides processes")
	}
	for name, ended := range map[string]bool{"false": false, "true": true} {
		other := exec.Command("sleep", "1000")
		must(t, other.Start())
		token := guard.TokenOf(other.Process.Pid)
		end := func() { _ = other.Process.Kill(); _ = other.Wait() }
		if t.Cleanup(end); ended {
			end()
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), modeEnv+"=hidden", tokenEnv+"="+token)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != name {
			t.Errorf("ended %v: it is dead: %s (%v)", ended, out, err)
		}
	}
}

func TestThatProcHidesProcessesIsSeen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a /proc that hides processes")
	}
	for _, c := range []struct {
		hidepid, uid string
		hides        bool
	}{{"0", "65534", false}, {"1", "65534", true}, {"2", "65534", true}, {"2", "0", false}} {
		cmd := exec.Command("/proc/self/exe", c.hidepid, c.uid)
		cmd.Env = append(os.Environ(), modeEnv+"=hides")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != strconv.FormatBool(c.hides) {
			t.Errorf("hidepid=%s, user %s: it hides them: %s (%v)", c.hidepid, c.uid, got, err)
		}
	}
}
