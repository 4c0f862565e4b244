package guard_test

import (
	"context"
	"errors"
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
	var limit unix.Rlimit
	must(t, unix.Prlimit(guardPID, unix.RLIMIT_NOFILE, nil, &limit))
	// No more files than standard input, output and error, which it has. To count what it has would
	// count files that it is about to close as well.
	few := unix.Rlimit{Cur: 3, Max: limit.Max}
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
