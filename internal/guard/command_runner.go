//go:build unix

package guard

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/output"
)

const (
	// leaseCheck is how often the clocks are compared while commands run. Timers do not see that
	// the wall clock was set, or that the host slept.
	leaseCheck = 50 * time.Millisecond
	// groupCheck is how often a group whose leader is gone is looked at: a member whose parent
	// is not us dies unseen.
	groupCheck = 10 * time.Millisecond
	// standLimit is how much later than it meant to a process wakes up when it stood still.
	standLimit = time.Second
	// forever is long enough for a timer that nothing needs.
	forever = time.Hour
)

// commandRunner runs the commands in the guard process. One goroutine, on one thread, starts,
// signals and reaps. So no process id passes to another process between two of these.
type commandRunner struct {
	token   string
	emit    func(event)
	lease   *lease // the newest
	runs    map[uint64]*run
	leaders map[int]*run // by process id, until reaped
	closing bool         // the owner is gone, or about to go
	died    time.Time    // when the owner did; zero: it lives, or has said that it stops
	last    goodbye      // the newest
	// unknown holds the strays of which it cannot be told whose they are, each with the commands
	// that were ending when it turned up: it belonged to one of them.
	unknown map[int][]uint64
	send    func(pid int, sig syscall.Signal) error // kill(2)
	cgroups *cgroups                                // nil: none
	output  *output.Copier                          // nil: commands have this process's own
	stood   stand
	sweep   sweep
}

// stand is the last time for which this process stood still: it was frozen, or its host was
// suspended.
type stand struct{ from, to time.Time }

// note notes that this process stood still, if it went to sleep for next and woke up much later, by
// the clock by which more time has passed: the monotonic one stands still while the host is
// suspended.
func (s *stand) note(asleep time.Time, next time.Duration, woke time.Time) {
	slept := max(woke.Sub(asleep), woke.Round(0).Sub(asleep.Round(0)))
	if slept > next+standLimit {
		*s = stand{asleep, woke}
	}
}

// run is one command: its process group, and whatever left it.
type run struct {
	id         uint64
	began      time.Time
	pgid       int
	timeout    time.Duration
	lease      *lease // that it began under; renewed until there is one of another epoch
	leaderGone bool
	groupGone  bool // then its number may pass to others: never to be signalled again
	confined   bool // all of it is in a cgroup of its own
	status     syscall.WaitStatus
	reason     Reason    // "" while it may run
	killAt     time.Time // when stopping
	killed     bool
	told       bool      // that SIGKILL was sent to all of it
	known      bool      // what else runs on this host is known, or about to be: see sweep.begin
	sweepAt    time.Time // when to look for it everywhere, if it was killed and does not end
	sweepPause time.Duration
	termed     map[int]bool // processes outside the group that were asked to stop
	output     *output.Run  // nil: this process's own
}

func newCommandRunner(token string, emit func(event)) *commandRunner {
	return &commandRunner{token: token, emit: emit, lease: &lease{}, runs: map[uint64]*run{},
		leaders: map[int]*run{}, unknown: map[int][]uint64{}, send: syscall.Kill,
		sweep: sweep{ended: make(chan struct{}, 1)}}
}

// loop returns when cmds is closed and every command is gone.
func (cr *commandRunner) loop(cmds <-chan command) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	timer := time.NewTimer(forever)
	for {
		cr.reap()
		cr.enforce()
		cr.settleEnded()
		if cr.closing && len(cr.runs) == 0 {
			return
		}
		asleep, next := time.Now(), cr.nextLook()
		timer.Reset(next)
		select {
		case c, ok := <-cmds:
			cr.stood.note(asleep, next, time.Now())
			if !ok || c.Kind == cmdEnd {
				cmds = nil
				cr.closing = true
				if !ok {
					cr.died = time.Now()
				}
				continue
			}
			cr.do(c)
		case <-died:
			cr.stood.note(asleep, next, time.Now())
		case <-cr.sweep.ended:
			cr.stood.note(asleep, next, time.Now())
		case <-timer.C:
			cr.stood.note(asleep, next, time.Now())
		}
	}
}

func (cr *commandRunner) do(c command) {
	switch c.Kind {
	case cmdStart:
		cr.start(c)
	case cmdStop:
		cr.reap() // what has ended by itself is not stopped
		if r := cr.runs[c.ID]; r != nil {
			cr.stop(r, Stopped)
		}
	case cmdSignal:
		if r := cr.runs[c.ID]; r != nil && r.reason == "" && !r.leaderGone {
			_ = cr.send(r.pgid, syscall.Signal(c.Signal))
		}
	case cmdLease:
		if c.Lease.Epoch == cr.lease.Epoch {
			*cr.lease = c.Lease // given up or not: its end binds what is being stopped
			return
		}
		cr.lease.Gone = true
		cr.lease = &c.Lease
	case cmdKill:
		cr.reap()
		cr.lease.Gone = true
		for _, r := range cr.runs {
			if r.reason == "" {
				r.reason = Stopped
			}
			cr.kill(r)
		}
	case cmdGoodbye:
		cr.last = goodbye{c.Goodbye, c.Owner}
	case cmdPing:
		cr.emit(event{Kind: evPong})
	}
}

func (cr *commandRunner) start(c command) {
	refuse := func(err error, noLease bool) {
		cr.emit(event{Kind: evExited, ID: c.ID, Code: -1, Reason: NotStarted, Err: err.Error(),
			NoLease: noLease, Exhausted: exhausted(err)})
	}
	if !cr.lease.held() || c.Epoch != cr.lease.Epoch {
		refuse(ErrNoLease, true)
		return
	}
	in, err := payloadFile(c.Stdin)
	if err != nil {
		refuse(fmt.Errorf("payload: %w", err), false)
		return
	}
	defer in.Close()
	var out *output.Run // none: then it has this process's own
	if cr.output != nil {
		if out, err = cr.output.Begin(c.Name, c.Env); err != nil {
			refuse(err, false)
			return
		}
	}
	var cgroup *os.File // none: then it is traced by other means
	if cr.cgroups != nil {
		if dir, err := cr.cgroups.make(c.ID); err == nil {
			defer dir.Close()
			cgroup = dir
		}
	}
	stdout, stderr := uintptr(1), uintptr(2)
	if out != nil {
		stdout, stderr = out.Fds()
	}
	attr := &syscall.ProcAttr{Env: cr.environ(c), Files: []uintptr{in.Fd(), stdout, stderr},
		Sys: childAttr(cgroup)}
	setCommandLimit(cr.token, c.ID)
	defer setCommandLimit(cr.token, 0) // this process is of no command
	pid, err := syscall.ForkExec(c.Argv[0], c.Argv, attr)
	if err != nil && cgroup != nil {
		cr.cgroups.remove(c.ID)
		cgroup, attr.Sys = nil, childAttr(nil)
		pid, err = syscall.ForkExec(c.Argv[0], c.Argv, attr)
	}
	if err != nil {
		if out != nil {
			out.Ended()
		}
		refuse(fmt.Errorf("start %s: %w", c.Argv[0], err), false)
		return
	}
	if out != nil {
		out.Started()
	}
	r := &run{id: c.ID, began: time.Now(), pgid: pid, timeout: c.StopTimeout, lease: cr.lease,
		confined: cgroup != nil, termed: map[int]bool{}, output: out}
	cr.runs[c.ID], cr.leaders[pid] = r, r
	cr.emit(event{Kind: evStarted, ID: c.ID, PID: pid})
}

// environ is this process's environment, which is the owner's, without what is to be hidden and
// with the command's own entries over it: of two entries of one name only the last stays, since
// shells disagree which one counts.
func (cr *commandRunner) environ(c command) []string {
	own := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(c.HideEnv, name)
	})
	all := slices.Concat(own, c.Env, []string{fmt.Sprintf("%s=%s/%d", markerEnv, cr.token, c.ID)})
	seen := make(map[string]bool, len(all))
	env := make([]string, 0, len(all))
	for _, kv := range slices.Backward(all) {
		name, _, _ := strings.Cut(kv, "=")
		if !seen[name] {
			seen[name] = true
			env = append(env, kv)
		}
	}
	slices.Reverse(env)
	return env
}

// stop asks r to end, once. SIGKILL follows after the timeout, or before the lease ends, which may
// be renewed until then: see enforce.
func (cr *commandRunner) stop(r *run, why Reason) {
	if r.reason != "" {
		return
	}
	r.reason = why
	r.killAt = time.Now().Add(r.timeout)
	cr.signal(r, syscall.SIGTERM)
	cr.signal(r, syscall.SIGCONT) // what is suspended cannot end
}

func (cr *commandRunner) kill(r *run) {
	if !r.killed {
		after := min(sweepAfter, r.lease.killLead()/16)
		r.killed, r.sweepAt, r.sweepPause = true, time.Now().Add(after), sweepAfter
	}
	if r.confined {
		cr.cgroups.kill(r.id)
	}
	cr.signal(r, syscall.SIGKILL)
}

// signal reaches the whole group at once: none escapes by forking meanwhile.
func (cr *commandRunner) signal(r *run, sig syscall.Signal) {
	if !r.groupGone {
		_ = cr.send(-r.pgid, sig) // it may have just gone: the next look finds out
	}
	if r.leaderGone {
		return
	}
	// A leader that is in its group has the signal already. Many programs take a second SIGTERM for
	// an order to end at once.
	if pgid, err := syscall.Getpgid(r.pgid); err == nil && pgid != r.pgid {
		_ = cr.send(r.pgid, sig)
	}
}

// reap reaps the processes that have ended, orphans included. When the leader of a group has ended,
// the rest of the group is stopped.
func (cr *commandRunner) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		delete(cr.unknown, pid)
		r := cr.leaders[pid]
		if r == nil {
			continue
		}
		delete(cr.leaders, pid)
		r.leaderGone, r.status = true, status
		cr.stop(r, Ended)
	}
}

// enforce stops commands whose lease has ended, and kills those that have used up their time to
// stop.
func (cr *commandRunner) enforce() {
	if len(cr.runs) == 0 {
		return
	}
	now, leases := time.Now(), leaseStates()
	var undead []uint64
	unknown := false
	for _, r := range cr.runs {
		lease := leases(r.lease)
		switch {
		case !lease.held:
			cr.stop(r, LeaseEnded)
			unknown = unknown || !r.known
			r.known = true
		case cr.closing:
			cr.stop(r, Stopped)
		}
		if r.reason != "" && !r.killed && (lease.untilKill <= 0 || !now.Before(r.killAt)) {
			cr.kill(r)
		}
		if r.killed && !now.Before(r.sweepAt) {
			undead = append(undead, r.id)
		}
	}
	switch {
	case len(undead) > 0 && cr.sweep.begin(cr.token, undead, cr.reached()):
		for _, id := range undead {
			r := cr.runs[id]
			r.sweepAt = now.Add(r.sweepPause)
			r.sweepPause = min(2*r.sweepPause, mostSweepPause)
		}
	case unknown:
		cr.sweep.begin(cr.token, nil, nil)
	}
}

// reached returns what tells whether a process of a command had its SIGKILL before now, with its
// group or cgroup. It may be called from any goroutine.
func (cr *commandRunner) reached() func(pid int, id uint64) bool {
	groups := map[uint64]int{}
	for id, r := range cr.runs {
		if r.killed && !r.groupGone {
			groups[id] = r.pgid
		}
	}
	cgroups := cr.cgroups
	return func(pid int, id uint64) bool {
		if group, err := syscall.Getpgid(pid); err == nil && group == groups[id] {
			return true
		}
		of, ok := cgroups.command(pid)
		return ok && of == id
	}
}

// settleEnded reports the commands that have ended with all their processes.
func (cr *commandRunner) settleEnded() {
	ending := cr.ending()
	if len(ending) == 0 {
		return
	}
	swept := cr.sweep.result()
	cr.probeGroups(ending) // who leaves one from here on is among the strays
	left, strays, blind := cr.chaseStrays()
	for _, id := range ending {
		r := cr.runs[id]
		if r.killed && !r.told && !blind && swept.allOf(id, strays[id]) {
			r.told = true
			cr.emit(event{Kind: evKilled, ID: id})
		}
		if cr.confinedLeft(r) || !r.leaderGone || !r.groupGone || left[id] {
			continue
		}
		if r.confined {
			cr.cgroups.remove(id)
		}
		delete(cr.runs, id)
		cr.sweep.forget(id)
		if r.output != nil {
			r.output.Ended()
		}
		e := event{Kind: evExited, ID: id, Code: r.status.ExitStatus(), Reason: r.reason,
			Ended: time.Now().UnixNano()}
		if r.status.Signaled() {
			e.Signal = int(r.status.Signal())
		}
		e.tellStand(cr.stood, r.began)
		cr.emit(e)
	}
}

// probeGroups finds out which of these commands have nobody left in their group.
func (cr *commandRunner) probeGroups(ending []uint64) {
	for _, id := range ending {
		r := cr.runs[id]
		if r.groupGone {
			continue
		}
		probe := syscall.Signal(0)
		if r.killed {
			probe = syscall.SIGKILL // someone may have joined the group since
		}
		r.groupGone = errors.Is(cr.send(-r.pgid, probe), syscall.ESRCH)
	}
}

// nextLook is when the clocks and the groups have to be looked at again.
func (cr *commandRunner) nextLook() time.Duration {
	if len(cr.runs) == 0 {
		return forever
	}
	next := leaseCheck
	now, leases := time.Now(), leaseStates()
	for _, r := range cr.runs {
		if lease := leases(r.lease); lease.held {
			next = min(next, lease.untilStop)
		} else {
			next = min(next, max(lease.untilKill, groupCheck))
		}
		if r.leaderGone {
			next = min(next, groupCheck)
		}
		switch {
		case r.killed && cr.sweep.busy.Load(): // its end is told
		case r.killed:
			next = min(next, r.sweepAt.Sub(now))
		case r.reason != "":
			next = min(next, r.killAt.Sub(now))
		}
	}
	return max(next, time.Millisecond)
}
