package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of what its killed guard process leaves.
func adoptOrphans() error {
	_ = mostPID() // while there is a descriptor to read it
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// killAdopted kills and reaps all children but that one, one round, of which none is anybody
// else's, and calls had for each before: what one of them has started may have become a child since
// they were listed. None means that none of their descendants runs either: who loses its parent
// becomes a child before that one can be reaped. The error, of which cannotLook is true, says that
// some may be missing.
func killAdopted(but int, had func(pid int)) error {
	end := func(pid int) {
		if pid == but {
			return
		}
		had(pid)
		// Both numbers are its own until it is reaped here. Its group is of a dead guard process's
		// session, and may have one in it that has a parent which does not die.
		if group, err := syscall.Getpgid(pid); err == nil && group > 1 &&
			group != syscall.Getpgrp() {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
	pids, err := children()
	if err != nil {
		return eachByNumber(end, err)
	}
	for _, pid := range pids {
		end(pid)
	}
	return nil
}

// children lists the children of this process, zombies included. The kernel's list may skip entries
// when others leave it meanwhile; only the caller reaps, so none does. The error, of which
// cannotLook is true, says that some may be missing.
func children() (pids []int, _ error) {
	if !childrenListed() {
		return childrenByParent()
	}
	threads, err := os.ReadDir("/proc/self/task")
	if cannotLook(err) {
		return nil, err
	}
	for _, thread := range threads {
		list, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		if cannotLook(err) {
			return pids, err
		}
		if err != nil {
			continue // the thread ended
		}
		for f := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// childrenListed tells whether the kernel lists the children of a process: Linux does since 3.5, if
// it was built with CONFIG_PROC_CHILDREN.
var childrenListed = sync.OnceValue(func() bool {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	return !errors.Is(err, os.ErrNotExist)
})

// childrenByParent finds the same among all processes. It takes longer, and misses none: a child
// stays one until it is reaped here.
func childrenByParent() (pids []int, _ error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		switch {
		case cannotLook(err):
			return pids, err
		case err == nil && s.Parent == os.Getpid():
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
