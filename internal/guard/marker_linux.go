package guard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/proc"
)

// errExecuting says that a process executes program after program: at each look it had no
// environment yet.
var errExecuting = errors.New("a process is about to execute another program")

// seen is what a look at an environment came to.
type seen uint8

const (
	environRead  seen = iota // all of it; or there is none, or it is not to be read
	environEmpty             // it is empty, for good or because the kernel is about to fill it
	environAway              // not all of it: the process executes another program
	environTorn              // the same, or the process has taken the memory of it away
)

// looksAtNone is after how many looks in a row at an empty environment it is empty for good.
const looksAtNone = 5

// looksAtTorn is after how many such looks in a row, with its environment at the same place, a
// process is not about to execute a program. One that does so all the time is met at it by one look
// of nine, and has its environment elsewhere each time, if the kernel places it at random.
const looksAtTorn = 10

// mostMarkerLooks is how often a process is looked at that executes another program: that takes 0.1
// ms on an idle machine.
const mostMarkerLooks = 20

// marker returns the value of markerEnv that pid was started with, "" if none or not to be read.
// The error is errExecuting, or one of which cannotLook is true.
func marker(pid int) (string, error) {
	empty := 0 // looks in a row at which its environment was there, and empty
	torn := 0  // and those at which a part of it was missing, at the same place
	var was proc.Stat
	for range mostMarkerLooks {
		mark, now, seen, err := lookForMarker(pid)
		if seen == environRead || err != nil {
			return mark, err
		}
		if seen != environEmpty {
			empty = 0
		} else if empty++; empty == looksAtNone {
			return "", nil
		}
		if seen != environTorn || !sameProgram(was, now) {
			torn = 0
		} else if torn++; torn == looksAtTorn {
			return "", nil
		}
		was = now
		time.Sleep(50 * time.Microsecond)
	}
	return "", errExecuting
}

// sameProgram tells whether a process has its environment where it had it.
func sameProgram(a, b proc.Stat) bool {
	return a.PID == b.PID && a.Start == b.Start && a.EnvStart == b.EnvStart && a.EnvEnd == b.EnvEnd
}

// lookForMarker is one look, and what the process was then.
func lookForMarker(pid int) (mark string, now proc.Stat, _ seen, _ error) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	// its first thread has ended, and others run, perhaps
	if errors.Is(err, syscall.ESRCH) || err == nil && len(env) == 0 {
		env, err = environOfThreads(pid)
	}
	if cannotLook(err) {
		return "", now, environAway, err
	}
	if err != nil {
		return "", now, environRead, nil
	}
	mark, whole := markerIn(env)
	if whole {
		return mark, now, environRead, nil
	}
	now, seen, err := wholeEnviron(pid, len(env))
	return mark, now, seen, err
}

// markerIn returns the value of markerEnv in env, and whether its end was read: what is read of an
// environment may break off anywhere.
func markerIn(env []byte) (mark string, whole bool) {
	for kv := range bytes.SplitAfterSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(markerEnv+"=")); ok {
			v, whole = bytes.CutSuffix(v, []byte{0})
			return string(v), whole
		}
	}
	return "", false
}

// wholeEnviron says whether all was read of the environment of a process, of which length bytes
// were: as soon as it executes another program there is no more to read of the former. One that
// runs nothing of its own any more, or is the kernel's, has none: so one that hangs in its exit, as
// on a file of a server that is away.
func wholeEnviron(pid, length int) (now proc.Stat, _ seen, _ error) {
	if !environsShown() {
		return now, environRead, nil
	}
	ids, err := threadsOf(pid)
	if cannotLook(err) {
		return now, environAway, err
	}
	leaving := len(ids) > 1
	for i, id := range ids {
		s, err := proc.Read(id)
		leaving = leaving && err == nil && s.Leaving
		switch {
		case cannotLook(err):
			return now, environAway, err
		case err == nil && s.EnvEnd != 0 && s.EnvEnd-s.EnvStart != uint64(length):
			return s, environTorn, nil
		case err == nil && s.EnvEnd != 0 && length == 0:
			return now, environEmpty, nil
		case err == nil && s.EnvEnd != 0:
			return now, environRead, nil
		case i == 0 && (err != nil || s.Gone || s.Ending || s.Kernel):
			return now, environRead, nil
		}
	}
	if leaving { // and none has come or gone meanwhile: one that executes a program ends the others
		still, err := threadsOf(pid)
		if cannotLook(err) {
			return now, environAway, err
		}
		if slices.Equal(still, ids) {
			return now, environRead, nil
		}
	}
	return now, environAway, nil
}

// threadsOf lists a process and its threads, as package proc names them: its first one may have
// ended.
func threadsOf(pid int) (ids []string, _ error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	ids = []string{strconv.Itoa(pid)}
	for _, thread := range threads {
		ids = append(ids, fmt.Sprintf("%d/task/%s", pid, thread.Name()))
	}
	return ids, err
}

// environsShown tells whether this /proc says where environments are: that of Linux does.
var environsShown = sync.OnceValue(func() bool {
	s, err := proc.Read("self")
	return err == nil && s.EnvEnd != 0
})

// environOfThreads is the environment of a process as its threads see it: the first that has one
// counts. It is an error if there is none, and one of them may not be read.
func environOfThreads(pid int) ([]byte, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	for _, thread := range threads {
		env, bad := os.ReadFile(filepath.Join(dir, thread.Name(), "environ"))
		if len(env) > 0 {
			return env, nil
		}
		if cannotLook(bad) || errors.Is(bad, os.ErrPermission) && err == nil {
			err = bad
		}
	}
	return nil, err
}
