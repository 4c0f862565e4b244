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

// mostCommands is more than a guard process ever starts, in the number of its commands.
const mostCommands = 1 << 40

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

// setCommandLimit gives what this process starts from now on the limit of its command as well, as
// the soft one: so it is known whose it is, also when it has changed its user. 0 is none's. It does
// nothing where the limit is not the one of setLimit.
func setCommandLimit(token string, id uint64) {
	var now unix.Rlimit
	limit := limitOf(token)
	if unix.Getrlimit(unix.RLIMIT_RTTIME, &now) == nil && now.Max == limit {
		_ = unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: limit - id, Max: limit})
	}
}

// limited tells whether a process has the limit of the guard with that token, and which command's.
// 0 is none's. The error is one of which cannotLook is true.
func limited(pid int, token string) (id uint64, is bool, _ error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if cannotLook(err) {
		return 0, false, err
	}
	limit := limitOf(token)
	for line := range strings.Lines(string(b)) {
		values, ok := strings.CutPrefix(line, "Max realtime timeout ")
		f := strings.Fields(values) // the soft one, the hard one, us
		if !ok || len(f) < 2 || f[1] != strconv.FormatUint(limit, 10) {
			continue
		}
		if soft, err := strconv.ParseUint(f[0], 10, 64); err == nil {
			id = commandBy(limit, soft)
		}
		return id, true, nil
	}
	return 0, false, nil
}

// commandBy is the command whose soft limit that is, 0 if none's: a program may lower it itself,
// which says nothing of its command then.
func commandBy(limit, soft uint64) (id uint64) {
	if soft < limit && limit-soft < mostCommands {
		return limit - soft
	}
	return 0
}

// limits tells whether a guard process has given itself the limit of its token, so that all that it
// starts has it. It needs no descriptor.
func limits(pid int, token string) bool {
	_ = mostPID() // while there is a descriptor to read it
	var has unix.Rlimit
	return unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &has) == nil && has.Max == limitOf(token)
}

// commandOf tells whether a process is of the guard with that token, by its limit or its
// environment, and of which command. 0 is none's, or one that cannot be told. The error is
// errExecuting, or one of which cannotLook is true.
func commandOf(pid int, token string) (id uint64, is bool, _ error) {
	id, is, err := limited(pid, token)
	if id != 0 || err != nil {
		return id, is, err
	}
	mark, err := marker(pid)
	if t, idText, ok := strings.Cut(mark, "/"); ok && t == token {
		id, _ = strconv.ParseUint(idText, 10, 64)
		return id, true, err
	}
	return 0, is, err
}
