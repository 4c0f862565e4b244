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
	Session int
	Gone    bool   // it only waits to be reaped: no thread of it runs any more
	Stopped bool   // by a signal
	Start   uint64 // clock ticks since boot
}

// Read reads the stat of a process, pid being its id or "self". An error of the file is that of
// os.ReadFile.
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
	dead := rest[0] == "Z" || rest[0] == "X"
	return Stat{PID: pid, Session: session, Gone: dead && threads <= 1, Stopped: rest[0] == "T",
		Start: start}, nil
}
