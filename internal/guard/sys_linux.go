package guard

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// selfExe is the running program even when its file was replaced since: an upgrade in place must
// not give a restarted guard another version than its owner's.
const selfExe = "/proc/self/exe"

func bootNanos() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("guard: CLOCK_BOOTTIME cannot be read: " + err.Error()) // since Linux 2.6.39
	}
	return ts.Nano()
}

// settle makes this process fit to be a guard.
func settle() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	// Another name than the owner's, so that `pkill -9 coordd` leaves someone to clean up. A kernel
	// without it costs only that.
	_ = os.WriteFile("/proc/self/comm", []byte("coord-guard"), 0)
	return nil
}

// childAttr: the parent-death signal follows the thread that started the child, so the caller must
// be locked to a thread that lives as long as the guard.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
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
	f := os.NewFile(uintptr(fd), "payload")
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// children lists the children of this process, zombies included. The kernel's list may skip
// entries when others leave it meanwhile; only the caller reaps, so none does.
func children() []int {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	var pids []int
	for _, name := range files {
		list, err := os.ReadFile(name)
		if err != nil {
			continue // the thread ended
		}
		for f := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// marker returns the value of markerEnv that pid was started with, "" if none or not to be read.
func marker(pid int) string {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(markerEnv+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// stat is what /proc/PID/stat tells of a process.
type stat struct {
	pid, ppid, pgrp, session int
	zombie                   bool
	start                    uint64 // clock ticks after boot
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name, in parentheses, may hold anything, parentheses and spaces too.
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return stat{}, fmt.Errorf("/proc/%d/stat: no name", pid)
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(f))
	}
	s := stat{pid: pid, zombie: f[0] == "Z" || f[0] == "X"}
	s.ppid, _ = strconv.Atoi(f[1])
	s.pgrp, _ = strconv.Atoi(f[2])
	s.session, _ = strconv.Atoi(f[3])
	s.start, _ = strconv.ParseUint(f[19], 10, 64)
	return s, nil
}

// processes lists all processes to be seen, without zombies.
func processes() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil && !s.zombie {
			all = append(all, s)
		}
	}
	return all, nil
}

// newToken names this guard so that a later one can tell whether it still lives: process id, start
// time, process namespace, and chance against what these leave open.
func newToken() string {
	s, _ := readStat(os.Getpid())
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return fmt.Sprintf("%d.%d.%s.%s", s.pid, s.start, strings.Trim(ns, "pid:[]"), rand.Text())
}

// tokenDead reports whether the guard that made token is known to be dead.
func tokenDead(token string) bool {
	f := strings.Split(token, ".")
	if len(f) != 4 {
		return false
	}
	pid, err1 := strconv.Atoi(f[0])
	start, err2 := strconv.ParseUint(f[1], 10, 64)
	ns, err3 := os.Readlink("/proc/self/ns/pid")
	if err1 != nil || err2 != nil || err3 != nil || f[2] != strings.Trim(ns, "pid:[]") {
		return false
	}
	s, err := readStat(pid)
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	return err == nil && (s.zombie || s.start != start)
}

// killMarked kills every process whose marker is of a guard that match accepts, except this one
// and its parent, until none is left or the time is over. It returns how many it found, and how
// many of them were still there when the time was over.
func killMarked(match func(token string) bool, limit time.Duration) (total, left int) {
	found := map[int]bool{}
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		all, err := processes()
		if err != nil {
			return len(found), 0 // nothing can be seen here at all
		}
		live := 0
		for _, s := range all {
			if s.pid == os.Getpid() || s.pid == os.Getppid() {
				continue
			}
			token, _, ok := strings.Cut(marker(s.pid), "/")
			if !ok || !match(token) {
				continue
			}
			live++
			found[s.pid] = true
			killExactly(s.pid, func() bool {
				now, err := readStat(s.pid)
				return err == nil && now.start == s.start
			})
		}
		if live == 0 || time.Now().After(deadline) {
			return len(found), live
		}
	}
}

// killExactly kills pid if it still is what still says, without a moment in which the id could
// pass to another process: the handle is taken first.
func killExactly(pid int, still func() bool) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer p.Release()
	if still() {
		_ = p.Kill() // gone already, or not ours to kill: the caller looks again
	}
}

// killLeftovers kills what a dead guard left, one round, and returns the ids of those seen alive.
// They are known by the guard's session, or, when they left it, by its token. By these and not by
// the process groups: the owner may have been frozen since the guard died, and the numbers of empty
// groups may have passed to others.
func killLeftovers(guardPID int, token string, _ []int) []int {
	all, err := processes()
	if err != nil {
		return nil
	}
	var live []int
	for _, s := range all {
		if s.pid == guardPID || s.pid == os.Getpid() {
			continue
		}
		ours := s.session == guardPID
		if !ours && token != "" {
			t, _, ok := strings.Cut(marker(s.pid), "/")
			ours = ok && t == token
		}
		if !ours {
			continue
		}
		live = append(live, s.pid)
		killExactly(s.pid, func() bool {
			now, err := readStat(s.pid)
			return err == nil && now.start == s.start
		})
	}
	return live
}
