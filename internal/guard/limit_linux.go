package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limitOf is what a guard process sets RLIMIT_RTTIME to, for itself and so for its commands. All
// that they start inherits it, also what drops or overwrites its environment, leaves its session or
// changes its user: nobody but root can raise a limit, and hardly a program sets this one. It is
// the time that a thread with a real-time priority may run without waiting, in microseconds:
// 146,000 years and more limit nothing.
func limitOf(token string) uint64 {
	sum := sha256.Sum256([]byte(token))
	return 1<<62 | binary.BigEndian.Uint64(sum[:])>>2
}

// setLimit gives this process the limit of its token, unless there is a limit already: an
// administrator's, or that of a guard process further up.
func setLimit(token string) {
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_RTTIME, &now) != nil || now.Cur != unix.RLIM_INFINITY ||
		now.Max != unix.RLIM_INFINITY {
		return
	}
	limit := limitOf(token)
	// Without it there is one sign less.
	_ = unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: limit, Max: limit})
}

// limited tells whether a process has that limit. The error is one of which cannotLook is true.
func limited(pid int, limit uint64) (bool, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if cannotLook(err) {
		return false, err
	}
	for line := range strings.Lines(string(b)) {
		if values, ok := strings.CutPrefix(line, "Max realtime timeout "); ok {
			f := strings.Fields(values) // the soft one, the hard one, us
			return len(f) > 1 && f[1] == strconv.FormatUint(limit, 10), nil
		}
	}
	return false, nil
}
