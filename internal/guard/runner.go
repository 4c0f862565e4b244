//go:build unix

package guard

import (
	"cmp"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/output"
)

const (
	// groupCheck is how often a command that is ending is looked at: a process whose parent is not
	// this one dies unseen.
	groupCheck = 10 * time.Millisecond
	// forever is long enough for a timer that nothing needs.
	forever = time.Hour
	// mostQueued is how many starts are read ahead. The payloads of others wait at the owner.
	mostQueued = 16
)

// runner runs the commands in the guard process. Its one loop knows everything, signals and reaps;
// it waits for nothing but news. Starting takes long on a busy host: starters do it beside the
// loop, as many at a time as Config.Starts says.
type runner struct {
	emit    func(event)
	send    func(pid int, sig syscall.Signal) error // kill(2)
	hideEnv []string
	cgroups cgroups        // empty: none
	output  *output.Copier // nil: commands have this process's own

	lease   *lease // the newest
	runs    map[uint64]*run
	leaders map[int]*run // by process id, until reaped
	termed  map[int]bool // strays that were asked to stop

	queue    []*launch
	starting int // given to starters
	work     chan *launch
	started  chan *launch
	given    int                  // the same, since the beginning
	early    map[int]early        // reaped while starters are at work: perhaps theirs
	highest  uint64               // id of a start
	waiting  map[uint64][]control // by command that has not begun

	closing bool      // the owner is gone, or about to go
	killing bool      // nothing is given time to stop, what a starter is at neither
	died    time.Time // when the owner did; zero: it lives, or has said that it stops
	last    goodbye   // the newest
	stood   stand
	seen    time.Time // when it was last looked for ends: what had not ended ran then
	lookAt  time.Time // when to look at the commands that are ending
}

// early is the end of a process of which no starter has told yet.
type early struct {
	status syscall.WaitStatus
	given  int // runner.given by then
}

// run is one command: its process group, and its cgroup or what left the group.
type run struct {
	id         uint64
	env        []string // of the command alone
	began      time.Time
	pgid       int
	timeout    time.Duration
	lease      *lease // that it began under; renewed until there is one of another epoch
	leaderGone bool
	groupGone  bool // then its number may pass to others: never to be signalled again
	status     syscall.WaitStatus
	reason     Reason    // "" while it may run
	killAt     time.Time // when stopping
	killed     bool
	dying      bool        // the kernel has taken SIGKILL for it
	ran        time.Time   // when it was killed, or last seen to run
	output     *output.Run // nil: this process's own
}

func newRunner(hideEnv []string, starts int, emit func(event)) *runner {
	return &runner{emit: emit, send: syscall.Kill, hideEnv: hideEnv, lease: &lease{},
		runs: map[uint64]*run{}, leaders: map[int]*run{}, termed: map[int]bool{},
		work: make(chan *launch, starts), started: make(chan *launch, starts),
		early: map[int]early{}, waiting: map[uint64][]control{}}
}

// loop returns when controls is closed and every command is gone.
func (r *runner) loop(controls <-chan control, starts <-chan start) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	timer := time.NewTimer(forever)
	for {
		r.reap()
		r.enforce()
		r.settle()
		r.dispatch()
		if r.closing && controls == nil && len(r.runs) == 0 && r.starting == 0 {
			return
		}
		more := starts
		if len(r.queue) >= mostQueued {
			more = nil
		}
		asleep, next := time.Now(), r.nextLook()
		timer.Reset(next)
		select {
		case c, ok := <-controls:
			if !ok || c.Kind == ctlEnd {
				controls, r.closing = nil, true
				if !ok {
					r.died = time.Now()
				}
				break
			}
			r.do(c)
		case s, ok := <-more:
			if !ok {
				starts = nil
				break
			}
			r.take(s.Lease)
			r.queue = append(r.queue, &launch{start: s})
			r.highest = s.ID
			if _, ok := r.waiting[s.ID]; !ok {
				r.waiting[s.ID] = nil
			}
		case l := <-r.started:
			r.begin(l)
		case <-children:
		case <-timer.C:
		}
		r.stood.note(asleep, next, time.Now())
	}
}

// take takes in a lease, if it is newer than the one that it has. A start may have brought one of
// the next epoch before the last one of this epoch came.
func (r *runner) take(l lease) {
	switch {
	case l.Epoch < r.lease.Epoch:
		for _, run := range r.runs { // those of one epoch share their lease
			if run.lease.Epoch == l.Epoch && run.lease.Seq < l.Seq {
				*run.lease = l
				run.lease.Gone = true
			}
		}
	case l.Seq <= r.lease.Seq:
	case l.Epoch == r.lease.Epoch:
		*r.lease = l // given up or not: its end binds what is being stopped
	default:
		r.lease.Gone = true
		r.lease = &l
	}
}

func (r *runner) do(c control) {
	switch c.Kind {
	case ctlStop, ctlSignal:
		r.reap() // what has ended by itself is not stopped
		run := r.runs[c.ID]
		_, begins := r.waiting[c.ID]
		switch {
		case begins || c.ID > r.highest:
			r.waiting[c.ID] = append(r.waiting[c.ID], c)
		case run == nil: // it has ended
		case c.Kind == ctlStop:
			r.stop(run, Stopped)
		case run.reason == "" && !run.leaderGone:
			_ = r.send(run.pgid, syscall.Signal(c.Signal))
		}
	case ctlLease:
		r.take(c.Lease)
		r.emit(event{Kind: evLease, ID: c.Lease.Seq})
	case ctlKill:
		r.closing, r.killing = true, true
	case ctlGoodbye:
		r.last = goodbye{c.Goodbye, c.Owner}
	}
}

// dispatch gives starts to the starters. In process groups none is given while a look at ending
// commands is due: what a starter has just begun could not be told from a stray.
func (r *runner) dispatch() {
	for len(r.queue) > 0 {
		l := r.queue[0]
		id := l.start.ID
		stopped := slices.ContainsFunc(r.waiting[id], func(c control) bool {
			return c.Kind == ctlStop
		})
		switch {
		case stopped || r.closing:
			r.refuse(l, errors.New("it was stopped before it began"), false)
		case !r.lease.held() || l.start.Lease.Epoch != r.lease.Epoch:
			r.refuse(l, ErrNoLease, true)
		case r.starting == cap(r.work) || r.lookDue():
			return
		default:
			r.starting++
			r.given++
			l.under, l.given = r.lease, r.given
			r.work <- l
		}
		r.queue[0] = nil
		r.queue = r.queue[1:]
	}
}

func (r *runner) refuse(l *launch, err error, noLease bool) {
	delete(r.waiting, l.start.ID)
	r.emit(event{Kind: evExited, ID: l.start.ID, Code: -1, Reason: NotStarted, Err: err.Error(),
		NoLease: noLease})
}

// begin takes in what a starter has started.
func (r *runner) begin(l *launch) {
	r.starting--
	if l.err != nil {
		r.refuse(l, l.err, false)
		return
	}
	run := &run{id: l.start.ID, env: l.start.Env, began: time.Now(), pgid: l.pid,
		timeout: l.start.StopTimeout, lease: l.under, output: l.output}
	r.runs[run.id] = run
	r.emit(event{Kind: evStarted, ID: run.id, PID: l.pid})
	if e, ok := r.early[l.pid]; ok && e.given >= l.given {
		r.gone(run, e.status)
	} else {
		r.leaders[l.pid] = run
	}
	if r.starting == 0 {
		clear(r.early)
	}
	waiting := r.waiting[run.id]
	delete(r.waiting, run.id)
	for _, c := range waiting {
		r.do(c)
	}
}

// reap reaps the processes that have ended, orphans included.
func (r *runner) reap() {
	began := time.Now()
	defer func() { r.seen = began }()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		delete(r.termed, pid)
		if run := r.leaders[pid]; run != nil {
			delete(r.leaders, pid)
			r.gone(run, status)
		} else if r.starting > 0 {
			r.early[pid] = early{status, r.given}
		}
	}
}

// gone takes in that the first process of a command has ended. The rest is stopped.
func (r *runner) gone(run *run, status syscall.WaitStatus) {
	if run.leaderGone, run.status = true, status; !run.dying {
		run.ran = r.seen
	}
	r.stop(run, Ended)
	r.lookAt = time.Now()
}

// stop asks a command to end, once. SIGKILL follows after the timeout, or before the lease ends,
// which may be renewed until then: see enforce.
func (r *runner) stop(run *run, why Reason) {
	if run.reason != "" {
		return
	}
	run.reason = why
	run.killAt = time.Now().Add(run.timeout)
	_ = r.signal(run, syscall.SIGTERM)
	_ = r.signal(run, syscall.SIGCONT) // what is suspended cannot end
	for _, pid := range r.cgroups.members(run.id) {
		if group, err := syscall.Getpgid(pid); err == nil && group != run.pgid &&
			pid != run.pgid {
			_ = r.send(pid, syscall.SIGTERM)
		}
	}
}

// kill sends SIGKILL to the group: for many commands that is soon done. The cgroup comes after it.
func (r *runner) kill(run *run) {
	run.killed = true
	if err := r.signal(run, syscall.SIGKILL); err == nil {
		run.dying, run.ran = true, time.Now()
	}
}

// signal reaches the whole group at once: none escapes by forking meanwhile.
func (r *runner) signal(run *run, sig syscall.Signal) (err error) {
	if !run.groupGone {
		err = r.send(-run.pgid, sig) // it may have just gone: the next look finds out
	}
	if run.leaderGone {
		return err
	}
	// A leader that is in its group has the signal already. Many programs take a second SIGTERM for
	// an order to end at once.
	if pgid, gone := syscall.Getpgid(run.pgid); gone == nil && pgid != run.pgid {
		err = errors.Join(err, r.send(run.pgid, sig))
	}
	return err
}

// enforce kills commands that have used up their time to stop, and then stops those whose lease has
// ended. After a host stood still all of them are killed at once: none waits for another's stop.
func (r *runner) enforce() {
	if len(r.runs) == 0 {
		return
	}
	now, leases := time.Now(), leaseStates()
	var killed []*run
	due := map[*run]Reason{}
	for _, run := range r.runs {
		lease := leases(run.lease)
		switch {
		case run.reason != "":
		case !lease.held:
			due[run] = LeaseEnded
		case r.closing:
			due[run] = Stopped
		default:
			continue
		}
		if !run.killed && (r.killing || lease.untilKill <= 0 || run.reason != "" &&
			!now.Before(run.killAt)) {
			run.reason = cmp.Or(run.reason, due[run])
			r.kill(run)
			killed = append(killed, run)
		}
	}
	for _, run := range killed {
		r.cgroups.kill(run.id)
	}
	for run, why := range due {
		r.stop(run, why)
	}
}

// ending are the commands of which the first process has ended, or that were killed.
func (r *runner) ending() (all []*run) {
	for _, run := range r.runs {
		if run.leaderGone || run.killed {
			all = append(all, run)
		}
	}
	return all
}

// lookDue tells whether a look waits for the starters.
func (r *runner) lookDue() bool {
	return r.cgroups == "" && !time.Now().Before(r.lookAt) && len(r.ending()) > 0
}

// settle reports the commands that have ended with all their processes.
func (r *runner) settle() {
	now, ending := time.Now(), r.ending()
	if len(ending) == 0 || now.Before(r.lookAt) || r.cgroups == "" && r.starting > 0 {
		return
	}
	r.lookAt = now.Add(groupCheck)
	left := func(*run) bool { return false }
	if r.cgroups == "" {
		left = r.chase(ending)
	}
	for _, run := range ending {
		if !run.groupGone {
			probe := syscall.Signal(0)
			if run.killed {
				probe = syscall.SIGKILL // someone may have joined the group since
			}
			run.groupGone = errors.Is(r.send(-run.pgid, probe), syscall.ESRCH)
		}
		if !run.leaderGone || !run.groupGone || left(run) || r.cgroups.populated(run.id) {
			if !run.dying {
				run.ran = now
			}
			continue
		}
		go r.cgroups.remove(run.id)
		delete(r.runs, run.id)
		if run.output != nil {
			run.output.Ended()
		}
		e := event{Kind: evExited, ID: run.id, Code: run.status.ExitStatus(), Reason: run.reason,
			Ended: time.Now().UnixNano(), Ran: run.ran.UnixNano()}
		if run.status.Signaled() {
			e.Signal = int(run.status.Signal())
		}
		e.tellStand(r.stood, run.began)
		r.emit(e)
	}
}

// chase ends the strays of these commands, the processes that left their group and lost their
// parent: the kernel makes them children of this process. The result tells which commands have any.
func (r *runner) chase(ending []*run) (left func(*run) bool) {
	pids, err := children()
	if err != nil { // what could not be looked at may be anybody's
		return func(*run) bool { return true }
	}
	with := map[*run]bool{}
	for _, pid := range pids {
		if r.leaders[pid] != nil {
			continue
		}
		of := r.commandOf(pid)
		sig := syscall.Signal(0)
		for _, run := range ending {
			if of != nil && of != run {
				continue
			}
			with[run] = true
			if run.killed {
				sig = syscall.SIGKILL
			} else if sig == 0 && !r.termed[pid] {
				sig = syscall.SIGTERM
			}
		}
		if sig != 0 {
			r.termed[pid] = true
			_ = r.send(pid, sig)
		}
	}
	return func(run *run) bool { return with[run] }
}

// commandOf finds the command of a stray by the command's variables in its environment. Nil: it may
// be any one's, and ends with the next command that does.
func (r *runner) commandOf(pid int) *run {
	env := environOf(pid)
	for _, run := range r.runs {
		if len(run.env) > 0 && !slices.ContainsFunc(run.env, func(kv string) bool {
			return !slices.Contains(env, kv)
		}) {
			return run
		}
	}
	return nil
}

// nextLook is when the clocks and the ending commands have to be looked at again. Timers do not see
// that the wall clock was set, or that the host slept.
func (r *runner) nextLook() time.Duration {
	if len(r.runs) == 0 {
		return forever
	}
	next := watchEvery
	for _, run := range r.runs {
		next = min(next, run.lease.lookEvery())
		if run.leaderGone || run.killed {
			next = min(next, time.Until(r.lookAt))
		}
	}
	return max(next, time.Millisecond)
}
