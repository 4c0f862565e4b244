//go:build unix && !linux

package realconsul

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}

func stopped(int) bool { return true }
