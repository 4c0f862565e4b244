package bench_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime returns the processor time that this process and the servers that it has started have
// used so far. Times by the clock depend on what else a machine does, these hardly. Where there is
// no /proc the servers' is left out.
func cpuTime() time.Duration {
	used := ownTime()
	lists, _ := filepath.Glob("/proc/self/task/*/children") // a bad pattern is the only error
	for _, list := range lists {
		pids, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, pid := range strings.Fields(string(pids)) {
			used += childTime(pid)
		}
	}
	return used
}

// ownTime is the part of this process.
func ownTime() time.Duration {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano())
}

// tick is the unit of /proc/<pid>/stat.
const tick = 10 * time.Millisecond

func childTime(pid string) (used time.Duration) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, ok := strings.Cut(string(stat), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	if err != nil || !ok || len(fields) < 13 {
		return 0
	}
	for _, f := range fields[11:13] { // in user mode, in the kernel
		if n, err := strconv.Atoi(f); err == nil {
			used += time.Duration(n) * tick
		}
	}
	return used
}
