package realserver

import (
	"os"
	"strconv"
	"strings"
)

// stopped tells whether the process has really come to a halt: SIGSTOP is delivered, not obeyed at
// once.
func stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	// The name in parentheses may hold anything; the state follows the last one.
	_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	return strings.HasPrefix(after, "T")
}
