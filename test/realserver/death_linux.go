package realserver

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent has the kernel kill the child when the thread that started it is gone: the starter
// must stay on that thread (runtime.LockOSThread) for as long as the child lives.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// stopped tells whether the process has really come to a halt: SIGSTOP is delivered, not obeyed at
// once.
func stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	// The name in parentheses may hold anything; the state follows the last one.
	_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	return strings.HasPrefix(after, "T")
}
