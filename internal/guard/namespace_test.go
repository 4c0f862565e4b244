//go:build linux

package guard_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
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
