//go:build unix

package main

import "syscall"

// descriptors is how many files and connections this process may have open.
func descriptors() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil ||
		uint64(l.Cur) > unlimited {
		return unlimited
	}
	return int(l.Cur)
}
