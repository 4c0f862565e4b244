package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Process identifies one run of a member's process, well enough for another
// process of the same host to tell whether it still exists.
type Process struct {
	Instance     string `json:"instance,omitempty"` // random for each run of a member
	Host         string `json:"host,omitempty"`
	BootID       string `json:"boot,omitempty"`
	PIDNamespace string `json:"pidns,omitempty"`
	PID          int    `json:"pid,omitempty"`
	StartTime    uint64 `json:"start,omitempty"` // clock ticks since boot: /proc/PID/stat, field 22
	// Lock names what is held while commands may run that this process has started and that outlive
	// it: an open file, by device, inode and owner. NoLock: it starts none. Empty: nothing is known
	// of them.
	Lock string `json:"lock,omitempty"`
}

// NoLock is the Lock of a process whose work ends with it.
const NoLock = "none"

// Liveness says what is known of another process.
type Liveness int

const (
	Unknown Liveness = iota // another host or namespace, or too little is known
	Alive                   // it runs on this host
	Dead                    // it ran on this host and does not exist any more
)

func (l Liveness) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// Self describes the calling process, from /proc. Fields that cannot be had
// stay empty, which makes the answer of others Unknown.
func Self(instance string) Process {
	p := Process{Instance: instance, PID: os.Getpid()}
	p.Host, _ = os.Hostname()
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		p.BootID = string(bytes.TrimSpace(boot))
	}
	p.PIDNamespace, _ = os.Readlink("/proc/self/ns/pid")
	// A /proc of another namespace shows another number: then nothing in it may
	// be believed.
	if stat, err := readStat("self"); err == nil && stat.pid == p.PID {
		p.StartTime = stat.start
	}
	return p
}

// Liveness tells whether p still runs; of commands that outlive it, see Lock, it knows nothing. It
// says Dead only about a process of the same host, boot and pid namespace that the kernel says does
// not exist, or whose number was given to a process that started at another time: work is started
// on the strength of it.
func (p Process) Liveness() Liveness {
	self := Self("")
	if p.PID <= 0 || p.StartTime == 0 || p.BootID == "" || p.PIDNamespace == "" ||
		self.StartTime == 0 ||
		p.Host != self.Host || p.BootID != self.BootID || p.PIDNamespace != self.PIDNamespace {
		return Unknown
	}
	stat, err := readStat(strconv.Itoa(p.PID))
	switch {
	case err == nil && stat.start != p.StartTime:
		return Dead
	case err == nil && stat.gone:
		return Dead
	case err == nil:
		return Alive
	case errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH):
		// Asked of the kernel, because /proc mounted with hidepid hides the
		// processes of other users.
		return Dead
	}
	return Unknown
}

// procStat is what we need of /proc/PID/stat.
type procStat struct {
	pid   int
	gone  bool   // only waits to be reaped: no thread of it runs any more
	start uint64 // clock ticks since boot
}

func readStat(pid string) (procStat, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(data))
}

// parseStat reads a line of proc(5): "pid (comm) state ppid …", where comm may
// hold spaces and parentheses.
func parseStat(line string) (procStat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return procStat{}, fmt.Errorf("stat: no command name in %q", shorten(line))
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return procStat{}, fmt.Errorf("stat: %w", err)
	}
	rest := strings.Fields(line[end+1:]) // rest[0] is field 3
	if len(rest) < 20 {
		return procStat{}, fmt.Errorf("stat: %d fields after the command name, want 20", len(rest))
	}
	start, err := strconv.ParseUint(rest[22-3], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("stat: start time: %w", err)
	}
	threads, err := strconv.Atoi(rest[20-3])
	if err != nil {
		return procStat{}, fmt.Errorf("stat: threads: %w", err)
	}
	dead := rest[0] == "Z" || rest[0] == "X"
	return procStat{pid: pid, gone: dead && threads <= 1, start: start}, nil
}
