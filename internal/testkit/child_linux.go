package testkit

import "syscall"

// dieWithParent has the kernel kill the child when the thread that started it is gone: the starter
// must stay on that thread (runtime.LockOSThread) for as long as the child lives.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
