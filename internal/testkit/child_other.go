//go:build unix && !linux

package testkit

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
