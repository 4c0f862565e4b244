//go:build unix

package guard

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processName differs from the owner's name, so that `pkill -9 coordd`, `pkill -9 -f coordd` and
// `kill -9 $(pidof coordd)` leave the guard process alive to clean up.
const processName = "coord-guard"

const (
	// watchEvery is the period at which the owner looks after its guard process.
	watchEvery = 50 * time.Millisecond
	// silentAfter and stuckAfter count time in which the owner ran: one that was frozen itself must
	// not take its guard process for silent.
	silentAfter = 10 * time.Second
	// stuckAfter is how long a guard process may take to start, what it left to die, and a command
	// may wait for one that works: as long as an actor of a member may hang.
	stuckAfter = 45 * time.Second
	// stopSlack is what the guard process gets beyond the stop timeout to end when told to.
	stopSlack = 3 * time.Second
)

// Run keeps one guard process up until ctx ends, and then returns nil when it and every command are
// gone. When the guard process dies or stops answering, Run kills what it left, ends the running
// Execs with ErrLost, and returns an error that wraps ErrLost: call it again. An error that wraps
// ErrStuck says that it is of no use to call Run again. One Run at a time. This process must start
// no others meanwhile: Run takes what becomes its child for the dead guard process's.
func (g *Guard) Run(ctx context.Context) (err error) {
	g.mu.Lock()
	if g.stuck != nil || g.running {
		defer g.mu.Unlock()
		return cmp.Or(g.stuck, errors.New("guard: Run is running already; one at a time"))
	}
	g.running = true
	if g.cfg.LockFile != "" && g.lock == nil {
		g.lock, err = openLock(g.cfg.LockFile)
	}
	g.mu.Unlock()
	if err == nil {
		err = g.once(ctx)
	}
	tooLong := g.waitedTooLong()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
	switch {
	case err == nil: // nothing is left that the lock speaks for
		g.lock.Close()
		g.lock, g.lockID = nil, ""
	case tooLong || errors.Is(err, ErrStuck):
		g.stuck = fmt.Errorf("guard: %w: %w", ErrStuck, err)
		return g.stuck
	default:
		err = fmt.Errorf("guard: %w", err)
	}
	return err
}

// once is the life of one guard process.
func (g *Guard) once(ctx context.Context) error {
	w := &watch{g: g, exited: make(chan struct{})}
	if err := w.start(); err != nil {
		return fmt.Errorf("start the guard process: %w", err)
	}
	l := w.l
	stopWriters := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { l.controls.send(gob.NewEncoder(l.in), stopWriters) })
	helpers.Go(func() {
		enc := gob.NewEncoder(l.both)
		if enc.Encode(settings{HideEnv: g.cfg.HideEnv, Starts: g.cfg.Starts,
			Output: g.cfg.Output, NoCgroups: g.cfg.NoCgroups, LockFile: g.cfg.LockFile}) == nil {
			l.queue.send(enc, stopWriters)
		}
	})
	helpers.Go(l.read)
	go func() { defer close(w.exited); _ = w.cmd.Wait() }()

	cause := w.until(ctx)
	// The guard process runs nothing from here on. What it said last is still in the pipe.
	l.close()
	g.mu.Lock()
	if g.link == l {
		g.link, g.up, g.since = nil, make(chan struct{}), time.Now()
	}
	g.mu.Unlock()
	close(l.unlinked)
	close(stopWriters)
	last := stopSlack
	if cause != nil { // it may hang
		last = watchEvery
	}
	_ = l.both.SetDeadline(time.Now().Add(last))
	_ = l.in.Close()
	helpers.Wait()
	_ = l.both.Close()
	for len(l.news) > 0 {
		w.hear(<-l.news)
	}
	if cause == nil { // the guard process has seen to it that nothing is left
		l.fail(nil, stand{}, time.Now())
		return nil
	}
	killed, err := w.clearAway()
	if err != nil {
		return err
	}
	if time.Since(w.stood.to) > standLimit {
		w.stood = stand{}
	}
	l.fail(cause, w.stood, killed)
	return fmt.Errorf("%w: %w", ErrLost, cause)
}

// start starts the process, in a session of its own: the terminal's signals are for the owner.
func (w *watch) start() error {
	cfg := &w.g.cfg
	argv := cfg.Argv
	if argv == nil {
		exe, err := selfExe()
		if err != nil {
			return err
		}
		argv = []string{exe, "guard"}
	}
	if err := cmp.Or(CheckHost(), becomeSubreaper()); err != nil {
		return err
	}
	var err error
	if w.foreign, err = children(); err != nil {
		return err
	}
	w.cmd = exec.Command(argv[0], argv[1:]...)
	if cfg.Argv == nil {
		w.cmd.Args[0] = processName
	}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer theirs.Close()
	w.cmd.Stdout, w.cmd.Stderr = cfg.Stdout, cfg.Stderr
	w.cmd.ExtraFiles = []*os.File{theirs} // socketFD
	if w.g.lock != nil {
		w.cmd.ExtraFiles = append(w.cmd.ExtraFiles, w.g.lock) // lockFD
	}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.cmd.Start(); err != nil {
		return errors.Join(err, in.Close(), ours.Close())
	}
	w.l = newLink(in, ours, func() { _ = w.g.kill(w.cmd.Process) })
	return nil
}

// socketPair is for starts one way and events the other way.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	err = unix.SetNonblock(fds[0], true)
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "guard"), err
}

// overdue reports whether commands are left although the time is over by which the guard process
// must have killed them, with a quarter of what was left for that to take effect gone as well; and
// when to look again.
func (g *Guard) overdue(l *link) (late bool, again time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	again = watchEvery
	for lease := range l.leases() {
		late = late || lease.untilLate() <= 0
		again = min(again, lease.lookEvery())
	}
	return late, again
}

// watch is one guard process seen by Run.
type watch struct {
	g       *Guard
	l       *link
	cmd     *exec.Cmd
	exited  chan struct{}
	up      bool
	cgroup  string // of its commands; empty: none
	foreign []int  // children that this process had before

	looked time.Time     // when this process looked last
	stood  stand         // when this process stood still
	silent time.Duration // for how long the guard process has been
	late   int           // looks in a row
}

// until returns nil when the guard process has ended because ctx did, and else why it has ended or
// was killed.
func (w *watch) until(ctx context.Context) error {
	log := w.g.cfg.Logger
	w.looked = time.Now()
	pause := watchEvery
	timer := time.NewTimer(pause)
	defer timer.Stop()
	stop, stopping := ctx.Done(), false
	var killAt <-chan time.Time
	for {
		select {
		case <-w.exited:
			if stopping && w.cmd.ProcessState.Success() {
				return nil
			}
			err := errors.New(w.cmd.ProcessState.String())
			log.Error("guard-died", "pid", w.cmd.Process.Pid, "cause", err)
			return err
		case e := <-w.l.news:
			w.hear(e)
			if e.Kind == evHello && !stopping {
				w.publish(ctx)
			}
		case <-stop:
			stop, stopping = nil, true
			w.l.close()
			w.l.controls.last(control{Kind: ctlEnd})
			limit := stopSlack
			if w.up { // else it runs nothing yet
				limit += w.g.cfg.StopTimeout
			}
			killAt = time.After(limit)
		case <-killAt:
			log.Error("guard-will-not-end", "pid", w.cmd.Process.Pid)
			w.l.destroy()
			return errors.New("it has not ended when it was told to")
		case <-timer.C:
			now := time.Now()
			w.stood.note(w.looked, pause, now)
			ran := min(now.Sub(w.looked), 2*watchEvery)
			w.looked = now
			err := w.look(ran, stopping)
			late, again := w.g.overdue(w.l)
			if w.late++; !late {
				w.late = 0
			}
			if w.late >= 2 { // the news of the end may have been in the pipe
				err = errors.New("it has not stopped the work in time for the end of the lease")
			}
			if err != nil {
				w.l.destroy()
				log.Error("guard-killed", "pid", w.cmd.Process.Pid, "cause", err)
				return err
			}
			pause = again
			timer.Reset(pause)
		}
	}
}

// publish has the guard process take commands.
func (w *watch) publish(ctx context.Context) {
	g := w.g
	g.mu.Lock()
	if g.goodbye.Words != nil {
		w.l.setGoodbye(g.goodbye)
	}
	if g.lease.Boot != 0 {
		w.l.setLease(*g.lease)
	}
	g.link = w.l
	close(g.up)
	g.mu.Unlock()
	if g.cfg.Up != nil {
		g.cfg.Up(ctx)
	}
}

// look finds out whether the guard process has started, and takes leases in. Ran is for how long
// this process has run since the last look.
func (w *watch) look(ran time.Duration, stopping bool) error {
	w.silent += ran
	switch {
	case !w.up && (w.silent > w.g.stuckAfter || w.g.waitedTooLong()):
		return fmt.Errorf("it has not started for %v", w.g.stuckAfter)
	case w.up && (!w.l.silent() || stopping):
		w.silent = 0
	case w.up && w.silent > silentAfter:
		return fmt.Errorf("it has not answered for %v", silentAfter)
	}
	return nil
}

// hear takes in what the guard process says of itself.
func (w *watch) hear(e event) {
	log := w.g.cfg.Logger
	switch e.Kind {
	case evOutputLost:
		w.g.unwritten.Add(uint64(e.Lines))
		log.Warn("output-lost", "lines", e.Lines, "item", e.Item, "err", e.Err)
		return
	case evLocked:
		log.Info("commands-of-predecessor-gone")
	case evHello:
		w.up, w.silent, w.cgroup = true, 0, e.Cgroup
		if e.Cgroup != "" {
			log.Info("guard", "kills-by", "cgroup", "starts_at_once", e.Starts, "path", e.Cgroup)
		} else {
			log.Info("guard", "kills-by", "process-group", "starts_at_once", e.Starts,
				"no_cgroup", e.NoCgroup)
		}
		if w.g.cfg.LockFile != "" && !e.Locked {
			log.Info("waiting-for-commands-of-predecessor", "lock_file", w.g.cfg.LockFile, "why",
				e.Err)
		}
	}
	if e.Locked {
		w.g.mu.Lock()
		w.g.lockID = fileID(w.g.lock)
		w.g.mu.Unlock()
	}
}

// clearAway returns when the guard process and all that it left are gone, and since when nothing of
// it can have run: all was killed once by then.
func (w *watch) clearAway() (killed time.Time, err error) {
	var ran time.Duration
	for pause := time.Millisecond; ; pause = min(2*pause, watchEvery) {
		what := w.killLeft()
		if killed.IsZero() {
			killed = time.Now()
		}
		if what == nil {
			return killed, nil
		}
		if ran > w.g.stuckAfter {
			return killed, fmt.Errorf("%w: the dead guard process left what does not die: %w",
				ErrStuck, what)
		}
		before := time.Now()
		time.Sleep(pause)
		ran += min(time.Since(before), 2*watchEvery)
	}
}

// killLeft kills what a dead guard process left, once, and returns nil when nothing was there any
// more. All of it is in the guard process's cgroups, or has become a child of this process: a
// process that loses its parent does so before that one can be reaped.
func (w *watch) killLeft() (left error) {
	alive, guard := 0, w.cmd.Process.Pid
	select {
	case <-w.exited:
	default:
		alive = guard
		left = fmt.Errorf("the guard process %d has not ended", alive)
	}
	// Beside a guard process that the kernel keeps, and where none dies with it: what is in its
	// session is no other's.
	for _, pgid := range w.l.groups() {
		if session, err := unix.Getsid(pgid); err == nil && session == guard {
			left = errors.Join(left, syscall.Kill(-pgid, syscall.SIGKILL),
				fmt.Errorf("process group %d", pgid))
		}
	}
	if w.cgroup != "" {
		killCgroup(w.cgroup)
		if populated(w.cgroup) {
			left = errors.Join(left, fmt.Errorf("processes are in %s", w.cgroup))
		} else {
			removeCgroup(w.cgroup)
		}
	}
	pids, err := children()
	left = errors.Join(left, err)
	for _, pid := range pids {
		if pid == alive || slices.Contains(w.foreign, pid) {
			continue
		}
		left = errors.Join(left, fmt.Errorf("process %d", pid))
		// Both numbers are its own until it is reaped here.
		if group, err := syscall.Getpgid(pid); err == nil && group > 1 &&
			group != syscall.Getpgrp() {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
	return left
}
