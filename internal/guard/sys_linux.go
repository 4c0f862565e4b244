package guard

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfExe is the running program even when its file was replaced since: an upgrade in place must
// not give a restarted guard process another version than its owner's.
func selfExe() (string, error) { return "/proc/self/exe", nil }

func bootNanos() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("guard: CLOCK_BOOTTIME cannot be read: " + err.Error()) // since Linux 2.6.39
	}
	return ts.Nano()
}

// CheckHost reports whether commands can be guarded on this host: /proc must be that of this
// process namespace and list children. The error says what to do.
func CheckHost() error {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err == nil {
		return nil
	}
	return fmt.Errorf("guard: /proc is not that of this process namespace, or lists no children "+
		"(%w): mount it anew, as with mount -t proc proc /proc or unshare --mount-proc", err)
}

// settle makes this process fit to be a guard.
func settle() error {
	if err := CheckHost(); err != nil {
		return err
	}
	// A kernel without it costs only that.
	_ = os.WriteFile("/proc/self/comm", []byte(processName), 0)
	return becomeSubreaper()
}

// becomeSubreaper makes this process the parent of descendants that lose theirs.
func becomeSubreaper() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// unblockSignals has the commands that this thread starts begin with no signal blocked. What
// started this process may have blocked some.
func unblockSignals() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil) }

// childAttr: the parent-death signal follows the thread that started the child, so the caller must
// be locked to a thread that lives as long as the guard process. The child begins in the cgroup, if
// one is given.
func childAttr(cgroup *os.File) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if cgroup != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(cgroup.Fd())
	}
	return attr
}

// payloadFile returns a file that reads as data. A file in memory and not a pipe: nobody must feed
// it, so a child that never reads holds nothing up.
func payloadFile(data []byte) (*os.File, error) {
	if len(data) == 0 {
		return os.Open(os.DevNull)
	}
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("payload", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return filled(os.NewFile(uintptr(fd), "payload"), data)
}

// children lists the children of this process, zombies included. The kernel's list may skip entries
// when others leave it meanwhile; only the caller reaps, so none does. The error says that some may
// be missing.
func children() (pids []int, _ error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		list, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread ended
		}
		if err != nil {
			return nil, err
		}
		for f := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// environOf is the environment that a process was started with; nil if it cannot be read.
func environOf(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return slices.Collect(strings.SplitSeq(string(b), "\x00"))
}
