package guard

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/proc"
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

// seesItself returns an error unless /proc is that of this process namespace: by its numbers
// processes are found, and sent signals.
func seesItself() error {
	self, err := os.Readlink("/proc/self")
	switch {
	case err == nil && self == strconv.Itoa(os.Getpid()):
		return nil
	case err == nil:
		err = fmt.Errorf("it calls this process %s and not %d", self, os.Getpid())
	}
	return fmt.Errorf("/proc is not that of this process namespace (%w): mount it anew, as with "+
		"mount -t proc proc /proc or unshare --mount-proc",
		err)
}

// HidesProcesses tells whether /proc keeps other users' processes, and those of this user that are
// not to be dumped, from this process: it is mounted with hidepid, and this user is not exempt. It
// looks at process 1 only, so it does not notice where that is this user's.
func HidesProcesses() bool {
	_, err := readStat(1)
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
}

// settle makes this process fit to be a guard.
func settle() error {
	if err := seesItself(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	// A kernel without it costs only that.
	_ = os.WriteFile("/proc/self/comm", []byte(processName), 0)
	return nil
}

// childAttr: the parent-death signal follows the thread that started the child, so the caller must
// be locked to a thread that lives as long as the guard. The child begins in the cgroup, if one is
// given.
func childAttr(cgroup *os.File) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if cgroup != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(cgroup.Fd())
	}
	return attr
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

func readStat(pid int) (proc.Stat, error) { return proc.Read(strconv.Itoa(pid)) }

// census looks at all processes to be seen, round after round.
type census struct {
	known map[int]bool // the process ids that the last round came by
	// rounds in a row that found none of those that are looked for, and those of them in a row that
	// were whole
	without, wholly int
}

// found takes in a round that found some of those that are looked for, or was blind.
func (c *census) found() { c.without, c.wholly = 0, 0 }

// none takes in a round that found none of those that are looked for. It tells whether there is
// none: after so many whole rounds, or after roundsPassing of any kind.
func (c *census) none(whole bool, enough int) bool {
	c.without++
	if c.wholly++; !whole {
		c.wholly = 0
	}
	return c.wholly >= enough || c.without >= roundsPassing
}

// round calls look for each process but zombies. It does not leave out one for an error of which
// cannotLook is true. Whole means that none was missed: one that ends between being listed and
// being looked at may have passed its work on to one that is not listed. So those that were not
// there in the last round come first, the youngest of them before the others.
func (c *census) round(look func(proc.Stat)) (whole bool, _ error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return false, err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return false, err
	}
	var fresh, old []int
	known := map[int]bool{}
	for _, name := range slices.Backward(names) {
		pid, err := strconv.Atoi(name)
		switch {
		case err != nil:
			continue
		case c.known[pid]:
			old = append(old, pid)
		default:
			fresh = append(fresh, pid)
		}
		known[pid] = true
	}
	whole = true
	for i, pid := range slices.Concat(fresh, old) {
		s, err := readStat(pid)
		if cannotLook(err) {
			return false, err
		}
		if err == nil && !s.Gone {
			look(s)
		}
		if i < len(fresh) && hasEnded(pid) {
			whole = false
		}
	}
	c.known = known
	return whole, nil
}

// hasEnded tells whether pid is about to end, a zombie, or no more.
func hasEnded(pid int) bool {
	s, err := readStat(pid)
	return err == nil && (s.Gone || s.Ending) || errors.Is(err, os.ErrNotExist) ||
		errors.Is(err, syscall.ESRCH)
}

// newToken names this guard so that a later one can tell whether it still lives: process id, start
// time, process namespace, and chance against what these leave open.
func newToken() string { return nameOf(os.Getpid(), rand.Text()) }

// nameOf is a token of any process.
func nameOf(pid int, more string) string {
	s, _ := readStat(pid)
	ns, _ := namespaces()
	return fmt.Sprintf("%d.%d.%s.%s", s.PID, s.Start, ns, more)
}

// firstTime is the time namespace that a host starts with: PROC_TIME_INIT_INO of Linux.
const firstTime = "4026531834"

// namespaces names those in which a process id and a start time mean what they do here: that of
// processes, and that of time if it is not the host's own.
func namespaces() (string, error) {
	pids, err := os.Readlink("/proc/self/ns/pid")
	name := strings.Trim(pids, "pid:[]")
	if clock, bad := os.Readlink("/proc/self/ns/time"); bad == nil { // since Linux 5.6
		if clock = strings.Trim(clock, "time:[]"); clock != firstTime {
			name += "-" + clock
		}
	}
	return name, err
}

// tokenDead reports whether the process that has that token is known to be dead.
func tokenDead(token string) bool {
	_, dead := lookUp(token)
	return dead
}

// frozen returns the id of the process that has that token if it was stopped by a signal, else 0.
func frozen(token string) (pid int) {
	if s, dead := lookUp(token); !dead && s.Stopped {
		return s.PID
	}
	return 0
}

// lookUp finds the process that has that token. It is the zero Stat when nothing is known of it, or
// it is dead.
func lookUp(token string) (_ proc.Stat, dead bool) {
	f := strings.Split(token, ".")
	if len(f) != 4 {
		return proc.Stat{}, false
	}
	pid, err1 := strconv.Atoi(f[0])
	start, err2 := strconv.ParseUint(f[1], 10, 64)
	ns, err3 := namespaces()
	if err1 != nil || err2 != nil || err3 != nil || pid <= 0 || f[2] != ns {
		return proc.Stat{}, false
	}
	s, err := readStat(pid)
	switch {
	case errors.Is(err, os.ErrNotExist):
		// Asked of the kernel, because /proc mounted with hidepid hides processes.
		return proc.Stat{}, errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	case err != nil:
		return proc.Stat{}, false
	case s.Gone || s.Start != start:
		return proc.Stat{}, true
	}
	return s, false
}

// killMarked kills every process whose marker, limit or cgroup is of a guard that is claimed,
// except this one and its parent, until none is left that is awaited or the time is over. It
// returns how many it found, whether some were kept, and no error when none that is awaited is
// left. By their limit it knows what those guards have left whose tokens are given. It goes on with
// the rounds of a census for the same ones.
func killMarked(all *census, claims func(token string) claim, tokens []string,
	limit time.Duration) (total int, keeps bool, _ error) {
	if err := seesItself(); err != nil {
		return 0, false, err
	}
	found := map[int]bool{}
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		live := 0
		count := func(what claim, n int) {
			if what == awaited {
				live += n
			}
			keeps = keeps || what == kept
		}
		dirs, blind := cgroupsOf()
		for token, dir := range dirs {
			what := claims(token)
			if what == none {
				continue
			}
			pids, any := cgroupMembers(dir)
			for _, pid := range pids {
				found[pid] = true
			}
			if any {
				count(what, max(1, len(pids)))
				killCgroup(dir)
			}
			removeCgroup(dir)
		}
		whole, err := all.round(func(s proc.Stat) {
			if s.PID == os.Getpid() || s.PID == os.Getppid() {
				return
			}
			mark, err := marker(s.PID)
			if err != nil {
				blind = err
			}
			what := none
			if token, _, ok := strings.Cut(mark, "/"); ok {
				what = claims(token)
			}
			for _, token := range tokens {
				_, is, err := limited(s.PID, token)
				if err != nil {
					blind = err
				}
				if is {
					what = max(what, claims(token))
				}
			}
			if what == none {
				return
			}
			count(what, 1)
			found[s.PID] = true
			_ = killExactly(s) // the next round sees
		})
		switch {
		case err != nil && !cannotLook(err):
			return len(found), keeps, nil // nothing can be seen here at all
		case err != nil:
			blind = err
		}
		if live > 0 || blind != nil {
			all.found()
		} else if all.none(whole, roundsWithout) {
			return len(found), keeps, nil
		}
		if !whole && blind == nil {
			blind = errPassing
		}
		switch {
		case live == 0 && blind == nil:
		case time.Now().Before(deadline):
		case live == 0:
			return len(found), keeps,
				fmt.Errorf("whether dead guards left processes cannot be looked up: %w", blind)
		default:
			return len(found), keeps,
				fmt.Errorf("%d processes that dead guards left do not die", live)
		}
	}
}

// roundsWithout is after how many rounds without any of them there is none: the ids of processes
// begin anew at 32,768 as a rule, and a list that is read meanwhile may miss one.
const roundsWithout = 2

// roundsPassing is after how many rounds without any of them there is none on a host where
// processes begin and end all the time, so that no round is whole. One round finds a work that is
// passed on from process to process two times of three, also where each of them does nothing else,
// and between 16 endless loops of /bin/true on two processors; there it is found within 5 rounds.
const roundsPassing = 50

// killExactly kills the process that was looked at, and no other that has its number since.
func killExactly(seen proc.Stat) error {
	return signalExactly(seen.PID, syscall.SIGKILL, func() bool {
		now, err := readStat(seen.PID)
		return err == nil && now.Start == seen.Start
	})
}

// signalExactly sends to pid if it still is what still says, without a moment in which the id could
// pass to another process: the handle is taken first. The error is that of the signal: it is gone
// already, or not ours to signal.
func signalExactly(pid int, sig syscall.Signal, still func() bool) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	if !still() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}

// killLeftovers kills what the guard process left, one round, and adds those seen alive to left,
// each with its command if that can be told. They are known by the guard's session, or, when they
// left it, by its token and its limit. By these and not by the process groups: the owner may have
// been frozen since the guard died, and the numbers of empty groups may have passed to others. The
// error, errPassing or one of which cannotLook is true, says that there may be more.
func (w *watch) killLeftovers(left remains) (blind error) {
	found := false
	session := w.session()
	whole, err := w.all.round(func(s proc.Stat) {
		if s.PID == os.Getpid() || w.is(s.PID) {
			return
		}
		id, ours, err := commandOf(s.PID, w.token)
		if err != nil {
			blind = err
		}
		if ours || s.Session == session {
			found = true
			left.add(s.PID, id)
			_ = killExactly(s) // the next round sees
		}
	})
	if cannotLook(err) {
		blind = err
	}
	if found || blind != nil {
		w.all.found()
	} else if err == nil && !w.all.none(whole, 1) {
		blind = errPassing
	}
	return blind
}
