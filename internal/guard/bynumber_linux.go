package guard

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// What is here needs no descriptor: it asks the kernel of each number that a process may have. That
// takes up to a few seconds, as the system is set.

// killByNumber kills what is in the session of the guard process, or has its limit, one round, and
// adds it to left. What this user may not ask about he may not kill either, as a rule.
func (w *watch) killByNumber(left remains) {
	session := w.session()
	limit := limitOf(w.token)
	for pid := 1; pid <= mostPID(); pid++ {
		if pid == os.Getpid() || w.is(pid) {
			continue
		}
		var has unix.Rlimit
		ours := w.token != "" && unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &has) == nil &&
			has.Max == limit
		if !ours {
			in, err := unix.Getsid(pid)
			ours = err == nil && in == session
		}
		if !ours {
			continue
		}
		id := uint64(0)
		if has.Max == limit {
			id = commandBy(limit, has.Cur)
		}
		left.add(pid, id)
		_ = syscall.Kill(pid, syscall.SIGKILL) // the next round sees
	}
}

// session is that of the guard process. When that is reaped it is -1 if nothing is left of it: its
// number can only be another's by now if that was so.
func (w *watch) session() int {
	pid := w.cmd.Process.Pid
	if w.hangs || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return pid
	}
	return -1
}

// is tells whether that is the guard process, which has had its signal and hangs.
func (w *watch) is(pid int) bool { return w.hangs && pid == w.cmd.Process.Pid }

// eachByNumber calls end for each child of this process that it finds. It returns no error if there
// are no children any more, else why they could not be listed.
func eachByNumber(end func(pid int), why error) error {
	for pid := 1; pid <= mostPID(); pid++ {
		if unix.Waitid(unix.P_PID, pid, nil, lookOnly, nil) == nil {
			end(pid)
		}
	}
	if childless() {
		return nil
	}
	return why
}

// lookOnly has Waitid say at once whether there is such a child, and reap none.
const lookOnly = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT

// childless tells whether this process has no children, zombies included.
func childless() bool {
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, lookOnly, nil), syscall.ECHILD)
}

// mostPID is the highest process id here, as it was when it was asked for first.
var mostPID = sync.OnceValue(func() int {
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if n, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
		return n
	}
	return 1 << 22 // PID_MAX_LIMIT of Linux
})
