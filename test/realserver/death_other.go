//go:build unix && !linux

package realserver

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}

func stopped(int) bool { return true }
