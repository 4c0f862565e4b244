package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/guard"
	"golang.org/x/sys/unix"
)

// That a host has nothing left to start a command with is no end of the command's: it says whose
// fault it is.
func TestACommandThatTheHostCannotStartIsToldFromOneThatFails(t *testing.T) {
	f := start(t, guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{Name: "first", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	guardPID := parent(t, pids(t, f.path("pids"), 1)[0])
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", guardPID))
	must(t, err)
	var limit unix.Rlimit
	must(t, unix.Prlimit(guardPID, unix.RLIMIT_NOFILE, nil, &limit))
	few := unix.Rlimit{Cur: uint64(len(open)), Max: limit.Max}
	must(t, unix.Prlimit(guardPID, unix.RLIMIT_NOFILE, &few, nil))
	e := exitError(t, f.Exec(t.Context(), guard.Spec{Name: "second", Command: "exit 3"}))
	if e.Reason != guard.NotStarted || !e.HostFault() || !errors.Is(e, guard.ErrExhausted) ||
		e.Interrupted() {
		t.Errorf("without a file to open it is %q, the host's fault: %v", e, e.HostFault())
	}
	must(t, unix.Prlimit(guardPID, unix.RLIMIT_NOFILE, &limit, nil))
	e = exitError(t, f.Exec(t.Context(), guard.Spec{Name: "second", Command: "exit 3"}))
	if e.Code != 3 || e.HostFault() {
		t.Errorf("it is %q, the host's fault: %v", e, e.HostFault())
	}
	cancel()
	if e := exitError(t, within(t, "the end", ended)); e.Signal != syscall.SIGTERM {
		t.Errorf("the first one's end is %q", e)
	}
}
