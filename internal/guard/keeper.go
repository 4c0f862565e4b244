//go:build unix

package guard

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// leaseCheck is how often the clocks are compared while commands run. Timers do not see that
	// the wall clock was set, or that the host slept.
	leaseCheck = 50 * time.Millisecond
	// groupCheck is how often a group whose leader is gone is looked at: a member whose parent
	// is not us dies unseen.
	groupCheck = 10 * time.Millisecond
	// forever is long enough for a timer that nothing needs.
	forever = time.Hour
)

// keeper holds what the guard process knows. All of it belongs to one goroutine, on one thread:
// it starts, signals and reaps, so that no process id passes to another between these.
type keeper struct {
	token   string
	emit    func(event)
	lease   *lease // the newest
	runs    map[uint64]*run
	leaders map[int]*run // by process id, until reaped
	closing bool         // the owner is gone, or about to go
	died    time.Time    // when the owner did; zero: it lives, or has said that it stops
	last    farewell     // the newest
	// unknown holds strays that carry no mark, and the commands that were ending when they turned
	// up: one of those had them.
	unknown map[int][]uint64
	send    func(pid int, sig syscall.Signal) error // kill(2)
	cgroups *cgroups                                // nil: none
}

// run is one command: its process group, and whatever left it.
type run struct {
	id         uint64
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
	termed     map[int]bool // processes outside the group that were asked to stop
}

func newKeeper(token string, emit func(event)) *keeper {
	return &keeper{token: token, emit: emit, lease: &lease{}, runs: map[uint64]*run{},
		leaders: map[int]*run{}, unknown: map[int][]uint64{}, send: syscall.Kill}
}

// loop returns when cmds is closed and every command is gone.
func (k *keeper) loop(cmds <-chan command) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	timer := time.NewTimer(forever)
	for {
		k.reap()
		k.enforce()
		k.settleEnded()
		if k.closing && len(k.runs) == 0 {
			return
		}
		timer.Reset(k.nextLook())
		select {
		case c, ok := <-cmds:
			if !ok || c.Kind == cmdEnd {
				cmds = nil
				k.closing = true
				if !ok {
					k.died = time.Now()
				}
				continue
			}
			k.do(c)
		case <-died:
		case <-timer.C:
		}
	}
}

func (k *keeper) do(c command) {
	switch c.Kind {
	case cmdStart:
		k.start(c)
	case cmdStop:
		k.reap() // what has ended by itself is not stopped
		if r := k.runs[c.ID]; r != nil {
			k.stop(r, Stopped)
		}
	case cmdSignal:
		if r := k.runs[c.ID]; r != nil && r.reason == "" && !r.leaderGone {
			_ = k.send(r.pgid, syscall.Signal(c.Signal))
		}
	case cmdLease:
		if c.Lease.Epoch == k.lease.Epoch {
			*k.lease = c.Lease // given up or not: its end binds what is being stopped
			return
		}
		k.lease.Gone = true
		k.lease = &c.Lease
	case cmdKill:
		k.reap()
		k.lease.Gone = true
		for _, r := range k.runs {
			if r.reason == "" {
				r.reason = Stopped
			}
			k.kill(r)
		}
	case cmdFarewell:
		k.last = farewell{c.Farewell, c.Owner}
	case cmdPing:
		k.emit(event{Kind: evPong})
	}
}

func (k *keeper) start(c command) {
	refuse := func(err error, noLease bool) {
		k.emit(event{Kind: evExited, ID: c.ID, Code: -1, Reason: NotStarted, Err: err.Error(),
			NoLease: noLease})
	}
	if !k.lease.held() || c.Epoch != k.lease.Epoch {
		refuse(ErrNoLease, true)
		return
	}
	in, err := payloadFile(c.Stdin)
	if err != nil {
		refuse(fmt.Errorf("payload: %w", err), false)
		return
	}
	defer in.Close()
	var cgroup *os.File // none: then it is traced by other means
	if k.cgroups != nil {
		if dir, err := k.cgroups.make(c.ID); err == nil {
			defer dir.Close()
			cgroup = dir
		}
	}
	attr := &syscall.ProcAttr{Env: k.environ(c), Files: []uintptr{in.Fd(), 1, 2},
		Sys: childAttr(cgroup)}
	pid, err := syscall.ForkExec(c.Argv[0], c.Argv, attr)
	if err != nil && cgroup != nil {
		k.cgroups.remove(c.ID)
		cgroup, attr.Sys = nil, childAttr(nil)
		pid, err = syscall.ForkExec(c.Argv[0], c.Argv, attr)
	}
	if err != nil {
		refuse(fmt.Errorf("start %s: %w", c.Argv[0], err), false)
		return
	}
	r := &run{id: c.ID, pgid: pid, timeout: c.StopTimeout, lease: k.lease, confined: cgroup != nil,
		termed: map[int]bool{}}
	k.runs[c.ID], k.leaders[pid] = r, r
	k.emit(event{Kind: evStarted, ID: c.ID, PID: pid})
}

// environ is this process's environment, which is the owner's, without what is to be hidden and
// with the command's own entries over it: of two entries of one name only the last stays, since
// shells disagree which one counts.
func (k *keeper) environ(c command) []string {
	own := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(c.HideEnv, name)
	})
	all := slices.Concat(own, c.Env, []string{fmt.Sprintf("%s=%s/%d", markerEnv, k.token, c.ID)})
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

// stop asks r to end, once. It never has longer than the lease.
func (k *keeper) stop(r *run, why Reason) {
	if r.reason != "" {
		return
	}
	r.reason = why
	r.killAt = time.Now().Add(min(r.timeout, r.lease.untilKill()))
	k.signal(r, syscall.SIGTERM)
	k.signal(r, syscall.SIGCONT) // what is suspended cannot end
}

func (k *keeper) kill(r *run) {
	r.killed = true
	if r.confined {
		k.cgroups.kill(r.id)
	}
	k.signal(r, syscall.SIGKILL)
}

// signal reaches the whole group at once: none escapes by forking meanwhile.
func (k *keeper) signal(r *run, sig syscall.Signal) {
	if !r.groupGone {
		_ = k.send(-r.pgid, sig) // it may have just gone: the next look finds out
	}
	if r.leaderGone {
		return
	}
	// A leader that is in its group has the signal already. Many programs take a second SIGTERM for
	// an order to end at once.
	if pgid, err := syscall.Getpgid(r.pgid); err == nil && pgid != r.pgid {
		_ = k.send(r.pgid, sig)
	}
}

// reap takes what has ended, orphans included. What a leader leaves behind in its group is stopped
// too.
func (k *keeper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		delete(k.unknown, pid)
		r := k.leaders[pid]
		if r == nil {
			continue
		}
		delete(k.leaders, pid)
		r.leaderGone, r.status = true, status
		k.stop(r, Ended)
	}
}

// enforce stops what may run no longer and kills what was asked long enough.
func (k *keeper) enforce() {
	if len(k.runs) == 0 {
		return
	}
	now, leases := time.Now(), leaseStates()
	for _, r := range k.runs {
		lease := leases(r.lease)
		switch {
		case !lease.held:
			k.stop(r, LeaseEnded)
		case k.closing:
			k.stop(r, Stopped)
		}
		if r.reason != "" && !r.killed && (lease.untilKill <= 0 || !now.Before(r.killAt)) {
			k.kill(r)
		}
	}
}

// settleEnded reports the commands of which nothing is left.
func (k *keeper) settleEnded() {
	ending := k.ending()
	if len(ending) == 0 {
		return
	}
	left := k.chaseStrays()
	for _, id := range ending {
		r := k.runs[id]
		if !r.groupGone {
			probe := syscall.Signal(0)
			if r.killed {
				probe = syscall.SIGKILL // someone may have joined the group since
			}
			r.groupGone = errors.Is(syscall.Kill(-r.pgid, probe), syscall.ESRCH)
		}
		if k.confinedLeft(r) || !r.groupGone || left[id] {
			continue
		}
		if r.confined {
			k.cgroups.remove(id)
		}
		delete(k.runs, id)
		e := event{Kind: evExited, ID: id, Code: r.status.ExitStatus(), Reason: r.reason,
			Ended: time.Now().UnixNano()}
		if r.status.Signaled() {
			e.Signal = int(r.status.Signal())
		}
		k.emit(e)
	}
}

// ending lists the commands that ended themselves, with something of them perhaps left.
func (k *keeper) ending() []uint64 {
	var ids []uint64
	for id, r := range k.runs {
		if r.leaderGone {
			ids = append(ids, id)
		}
	}
	return ids
}

// confinedLeft stops what is left in the cgroup of a run whose leader is gone, and tells whether
// anything was.
func (k *keeper) confinedLeft(r *run) bool {
	if !r.confined {
		return false
	}
	pids, any := k.cgroups.members(r.id)
	if !any {
		return false
	}
	if r.killed {
		k.cgroups.kill(r.id) // again: someone may have come in from outside since
		return true
	}
	for _, pid := range pids {
		if pgid, err := syscall.Getpgid(pid); err != nil || pgid == r.pgid && !r.groupGone ||
			r.termed[pid] {
			continue // dead, or told already
		}
		r.termed[pid] = true
		signalExactly(pid, syscall.SIGTERM, func() bool {
			id, ok := k.cgroups.command(pid)
			return ok && id == r.id
		})
	}
	return true
}

// chaseStrays stops the processes that left their group and then lost their parent, so that they
// became ours, and returns the runs that still have some. One that cannot be told to belong to a
// running command is killed: nobody else would.
func (k *keeper) chaseStrays() map[uint64]bool {
	left := map[uint64]bool{}
	groups := map[int]bool{}
	for _, r := range k.runs {
		if !r.groupGone {
			groups[r.pgid] = true
		}
	}
	all, err := children()
	blind := err != nil
	for _, pid := range all {
		if k.leaders[pid] != nil {
			continue
		}
		if pgid, err := syscall.Getpgid(pid); err != nil || groups[pgid] {
			continue // dead, or reached with its group
		}
		if id, ok := k.cgroups.command(pid); ok && k.runs[id] != nil {
			// dead, perhaps, and to be reaped first; the living ones are confinedLeft's
			left[id] = left[id] || k.runs[id].leaderGone
			continue
		}
		mark, err := marker(pid)
		if err != nil {
			blind = true
			continue
		}
		token, idText, _ := strings.Cut(mark, "/")
		id, _ := strconv.ParseUint(idText, 10, 64)
		r := k.runs[id]
		switch {
		case token != k.token || r == nil:
			if _, seen := k.unknown[pid]; !seen {
				k.unknown[pid] = k.ending()
			}
			for _, id := range k.unknown[pid] {
				left[id] = true
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		case !r.leaderGone:
			// Its command runs: it may keep its helpers.
		case r.killed:
			left[id] = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		default:
			left[id] = true
			if !r.termed[pid] {
				r.termed[pid] = true
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
		}
	}
	if blind { // what could not be looked at may be anybody's
		for _, id := range k.ending() {
			left[id] = true
		}
	}
	return left
}

// nextLook is when the clocks and the groups have to be looked at again.
func (k *keeper) nextLook() time.Duration {
	if len(k.runs) == 0 {
		return forever
	}
	next := leaseCheck
	now, leases := time.Now(), leaseStates()
	for _, r := range k.runs {
		if lease := leases(r.lease); lease.held {
			next = min(next, lease.untilStop)
		} else {
			next = min(next, max(lease.untilKill, groupCheck))
		}
		if r.leaderGone {
			next = min(next, groupCheck)
		}
		if r.reason != "" && !r.killed {
			next = min(next, r.killAt.Sub(now))
		}
	}
	return max(next, time.Millisecond)
}
