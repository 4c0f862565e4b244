// Package proc reads what Linux tells of a process in /proc/PID/stat:
//
//	s, err := proc.Read(strconv.Itoa(pid))
//	same := err == nil && !s.Gone && s.Start == started
//
// A process id alone is given to another process later. With the start time it is not.
package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Stat is a part of /proc/PID/stat.
type Stat struct {
	PID   int
	Gone  bool   // it only waits to be reaped: no thread of it runs any more
	Start uint64 // clock ticks since boot
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

// parse reads a line of proc(5): "pid (comm) state ppid …", where comm may hold spaces and
// parentheses.
func parse(line string) (Stat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return Stat{}, fmt.Errorf("stat: no command name in %.300q", line)
	}
	rest := strings.Fields(line[end+1:]) // rest[0] is field 3
	if len(rest) < 20 {
		return Stat{}, fmt.Errorf("stat: %d fields after the command name, want 20", len(rest))
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(line[:open]))
	threads, err2 := strconv.Atoi(rest[20-3])
	start, err3 := strconv.ParseUint(rest[22-3], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Stat{}, fmt.Errorf("stat: %w", err)
	}
	dead := rest[0] == "Z" || rest[0] == "X"
	return Stat{PID: pid, Gone: dead && threads <= 1, Start: start}, nil
}
