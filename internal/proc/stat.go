// Package proc reads what Linux tells of a process in /proc/PID/stat:
//
//	s, err := proc.Read(strconv.Itoa(pid))
//	same := err == nil && !s.Gone && s.Start == started
//
// A process id alone is given to another process later. With the start time it is not.
package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Stat is a part of /proc/PID/stat.
type Stat struct {
	PID     int
	Parent  int
	Session int
	Gone    bool   // it only waits to be reaped: no thread of it runs any more
	Stopped bool   // by a signal
	Start   uint64 // clock ticks since boot
	Kernel  bool   // it is a thread of the kernel
	Ending  bool   // its last thread is about to end, and runs nothing of its own any more
	Leaving bool   // so is the thread that was asked for, or it has ended; the process's is its first
	// EnvStart and EnvEnd are where its environment was as its program began. 0: it executes
	// another program now, or is the kernel's; or this user may not know.
	EnvStart, EnvEnd uint64
}

// Flags of a process: see PF_EXITING and PF_KTHREAD in Linux's include/linux/sched.h.
const (
	flagExiting = 0x4
	flagKernel  = 0x20_0000
)

// Read reads the stat of a process, pid being its id or "self", or of a thread: "PID/task/ID". An
// error of the file is that of os.ReadFile.
func Read(pid string) (Stat, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return Stat{}, err
	}
	return parse(string(data))
}

// parse reads a line of proc(5): "pid (comm) state ppid …", where comm may
// hold spaces and parentheses.
func parse(line string) (Stat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return Stat{}, fmt.Errorf("stat: no command name in %.300q", line)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return Stat{}, fmt.Errorf("stat: %w", err)
	}
	rest := strings.Fields(line[end+1:]) // rest[0] is field 3
	if len(rest) < 20 {
		return Stat{}, fmt.Errorf("stat: %d fields after the command name, want 20", len(rest))
	}
	parent, err := strconv.Atoi(rest[4-3])
	if err != nil {
		return Stat{}, fmt.Errorf("stat: parent: %w", err)
	}
	session, err := strconv.Atoi(rest[6-3])
	if err != nil {
		return Stat{}, fmt.Errorf("stat: session: %w", err)
	}
	threads, err := strconv.Atoi(rest[20-3])
	if err != nil {
		return Stat{}, fmt.Errorf("stat: threads: %w", err)
	}
	start, err := strconv.ParseUint(rest[22-3], 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("stat: start time: %w", err)
	}
	flags, err := strconv.ParseUint(rest[9-3], 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("stat: flags: %w", err)
	}
	dead, exiting := rest[0] == "Z" || rest[0] == "X", flags&flagExiting != 0
	s := Stat{PID: pid, Parent: parent, Session: session, Gone: dead && threads <= 1,
		Stopped: rest[0] == "T", Start: start, Kernel: flags&flagKernel != 0,
		Ending: exiting && threads <= 1, Leaving: exiting || dead}
	if len(rest) > 51-3 { // since Linux 3.5
		s.EnvStart, _ = strconv.ParseUint(rest[50-3], 10, 64)
		s.EnvEnd, _ = strconv.ParseUint(rest[51-3], 10, 64)
	}
	return s, nil
}
