//go:build linux

package guard

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// TokenOf is a token of any process, for tests of the package from outside.
func TokenOf(pid int) string { return nameOf(pid, "x") }

// ListNoChildren has this process find its children as on a kernel that does not list them.
func ListNoChildren() { childrenListed = func() bool { return false } }

// HiddenIsDead tells whether the process with that token, which is none of user 65534's, counts as
// dead for that user where /proc hides others' processes.
func HiddenIsDead(token string) string {
	if err := hide("2", 65534); err != nil {
		return err.Error()
	}
	if _, err := os.Stat("/proc/1"); !errors.Is(err, os.ErrNotExist) {
		return fmt.Sprintf("process 1 is not hidden: %v", err)
	}
	return fmt.Sprint(tokenDead(token))
}

// Hides tells whether /proc hides processes from that user where it is mounted so.
func Hides(hidepid string, uid int) string {
	if err := hide(hidepid, uid); err != nil {
		return err.Error()
	}
	return fmt.Sprint(HidesProcesses())
}

// hide gives this process such a /proc, and makes it that user's. It needs a mount namespace and
// root.
func hide(hidepid string, uid int) error {
	return errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, "hidepid="+hidepid),
		syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid))
}

// ThreadsAreHidden tells whether a look at the environment of a process by way of its threads says
// that this one may not.
func ThreadsAreHidden(pid int) bool {
	_, err := environOfThreads(pid)
	return errors.Is(err, os.ErrPermission)
}
