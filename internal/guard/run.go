//go:build unix

package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// processName differs from the owner's name, so that `pkill -9 coordd`, `pkill -9 -f coordd` and
// `kill -9 $(pidof coordd)` leave the guard process alive to clean up.
const processName = "coord-guard"

const (
	// watchEvery is the period at which the owner looks after its guard.
	watchEvery = 50 * time.Millisecond
	// pingEvery, silentAfter and startWithin count these periods and not time: an owner that was
	// frozen itself must not take its guard for silent.
	pingEvery   = 20
	silentAfter = 200
	// startWithin is for a guard process that has not said hello. It runs nothing yet. On a host so
	// busy that it takes longer than silentAfter to start, the next one would take as long. Where a
	// command waits for it, that is to wait for stuckAfter only.
	startWithin = 1200
	// stopSlack is what the guard gets beyond the stop timeout to end when told to.
	stopSlack = 3 * time.Second
	// diesWithin is how long the end of a guard process that was killed is waited for, before what
	// it has started is killed beside it.
	diesWithin = 20 * time.Millisecond
)

// Run keeps one guard process up until ctx ends, and then returns nil when it and every command are
// gone. When the guard process dies or stops answering, Run kills what it left, ends the running
// Execs with ErrLost, and returns an error that wraps ErrLost: call it again. An Exec whose
// processes do not die ends during a later Run, when they are gone. An error that wraps ErrStuck
// says that it is of no use to call Run again. It leaves no goroutine, but one that waits for a
// guard process which SIGKILL does not end. One Run at a time.
func (g *Guard) Run(ctx context.Context) error {
	if err := g.cfg.Validate(); err != nil {
		return err
	}
	if err := CheckHost(); err != nil {
		return err
	}
	g.mu.Lock()
	busy, stuck := g.running, g.stuck
	g.running = true
	g.mu.Unlock()
	if busy {
		return errors.New("guard: Run is running already; one at a time")
	}
	defer func() {
		g.mu.Lock()
		g.running = false
		g.mu.Unlock()
	}()

	if stuck != nil {
		return stuck
	}
	g.lacks(true)
	adopt := g.cfg.Adopt && (childless() || g.hasAdopted())
	if adopt {
		if err := adoptOrphans(); err != nil {
			return fmt.Errorf("guard: become subreaper: %w", err)
		}
	}
	cmd, l, err := g.spawn()
	if err != nil {
		return g.unstarted(fmt.Errorf("start the guard process: %w", err))
	}
	exited := make(chan struct{})
	stopWriter := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { l.write(stopWriter) })
	helpers.Go(l.read)
	go func() { defer close(exited); _ = cmd.Wait() }() // its state is read below

	w := &watch{g: g, l: l, cmd: cmd, exited: exited, adopt: adopt}
	stopChase := g.beginChase(cmd.Process.Pid)
	cause := w.until(ctx)
	stopChase()

	// The guard process runs nothing from here on. What it said last is still in the pipe. Where it
	// is gone nobody holds its other end, and should the impossible happen, this must not hang.
	g.unpublish(l)
	last := stopSlack
	if !w.gone() {
		_, _ = w.round(0) // at once, for the lease: clearAway looks what has come of it
		last = watchEvery
	}
	_ = l.events.SetReadDeadline(time.Now().Add(last))
	close(stopWriter)
	_ = l.in.Close()
	helpers.Wait()
	_ = l.events.Close()
	w.tellLosses()
	w.cause = cause
	if err := w.clearAway(); err != nil {
		return g.give(err)
	}
	if cause == nil {
		g.awaitLeft()
		g.unbind()
		return nil
	}
	return g.unstarted(fmt.Errorf("%w: %w", ErrLost, cause))
}

func (g *Guard) publish(l *link, cgroup string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lease.Boot != 0 {
		l.setLease(*g.lease)
	}
	if g.goodbye.Words != nil {
		l.setGoodbye(g.goodbye)
	}
	g.link, g.cgroup = l, cgroup
	close(g.up)
}

func (g *Guard) unpublish(l *link) {
	l.refuse()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.link == l {
		g.link, g.cgroup = nil, ""
		g.up = make(chan struct{})
	}
	close(l.unlinked)
}

// overdue reports whether commands run that the guard has not killed although the time is over by
// which it must have, with a quarter of what was left for that to take effect gone as well; and
// when to look again. One that was killed and does not die is no fault of the guard's: it goes on
// with it, and another one could do no more.
func (g *Guard) overdue(l *link) (late bool, again time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	again = watchEvery
	for lease := range l.unkilled() {
		if lease.Boot == 0 {
			continue
		}
		next := lease.untilLate() + time.Millisecond
		if next <= 0 {
			late, next = true, lease.lookEvery()
		}
		again = min(again, next)
	}
	return late, again
}

// awaitsLock tells whether nothing may start because the guard process does not hold the lock that
// others were told of.
func (g *Guard) awaitsLock(l *link) bool {
	g.mu.Lock()
	bound := g.boundID
	g.mu.Unlock()
	return bound != "" && l.holds() != bound
}

// watch is one guard process seen by Run.
type watch struct {
	g      *Guard
	l      *link
	cmd    *exec.Cmd
	exited <-chan struct{}
	hangs  bool // it was killed, and has not been seen to be gone
	token  string
	cgroup string // directory of its cgroup; empty: none
	adopt  bool   // all children of this process are of the guard process's making

	limited bool // all that it starts has its limit: see limitOf

	unanswered, late int

	lockErr string // why it did not have its lock when it started; empty: another one held it

	cause error // why the guard process is gone, once it is; nil: it was told to end
	all   census

	looked time.Time // when this process looked last
	stood  stand     // when this process stood still
	// both is when the guard process did so as well and can not say it; zero: it can, or did not
	both stand

	left map[uint64]bool // the commands of which the last round of chase met something
}

// until returns when the guard process is gone, or was killed and does not die: nil when that was
// because ctx ended, else why.
func (w *watch) until(ctx context.Context) error {
	log := w.g.cfg.Logger
	w.looked = time.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	work, due := time.NewTimer(watchEvery), time.Now().Add(watchEvery)
	defer work.Stop()
	stop, stopping := ctx.Done(), false
	var killAt, hangs <-chan time.Time
	killed := w.l.destroyed
	var cause error
	var waiting time.Time // since when it has tried to get its lock
	n := 0
	for {
		select {
		case <-w.exited:
			w.learnToken()
			if stopping {
				return nil
			}
			if cause == nil {
				cause = errors.New(w.cmd.ProcessState.String())
			}
			log.Error("guard-died", "pid", w.cmd.Process.Pid, "cause", cause)
			return cause
		case <-killed:
			killed, hangs = nil, time.After(diesWithin)
		case <-hangs:
			// It runs nothing of its own any more: the kernel is about to end it, which may take as
			// long as a disk does, or as it is kept frozen by its cgroup.
			w.hangs = true
			w.learnToken()
			if stopping {
				return nil
			}
			cause = cmp.Or(cause, errKilled)
			log.Error("guard-killed", "pid", w.cmd.Process.Pid, "cause", cause)
			return cause
		case e := <-w.l.news:
			if e.Swept > 0 {
				log.Warn("leftovers-killed", "processes", e.Swept)
			}
			if e.Evicted != 0 {
				log.Warn("frozen-guard-killed", "pid", e.Evicted, "why",
					"its coordd is dead, and it stopped nothing")
			}
			if e.Kind == evLocked {
				log.Info("commands-of-predecessor-gone", "waited",
					time.Since(waiting).Round(time.Millisecond).String())
				continue
			}
			w.hello(e)
			if e.Protocol != protocol {
				cause = fmt.Errorf("it speaks version %d and this is version %d: restart coordd",
					e.Protocol, protocol)
				w.kill()
				continue
			}
			if e.Cgroup != "" {
				log.Debug("guard-started", "pid", e.PID, "cgroup", e.Cgroup)
			} else {
				log.Debug("guard-started", "pid", e.PID, "no_cgroup", e.NoCgroup)
			}
			waiting = time.Now()
			switch {
			case e.Err != "":
				log.Error("lock-not-taken", "err", e.Err)
			case w.g.cfg.LockFile != "" && !e.Locked:
				log.Info("waiting-for-commands-of-predecessor", "lock_file", w.g.cfg.LockFile)
			}
			if !stopping {
				w.g.publish(w.l, e.Cgroup)
				_ = w.works() // at once: the next look may be too late
				if w.g.cfg.Up != nil {
					w.g.cfg.Up(ctx)
				}
			}
		case e := <-w.l.losses:
			w.tellLoss(e)
		case <-stop:
			stop, stopping = nil, true
			w.l.end()
			limit := stopSlack
			if w.token != "" { // else it runs nothing yet
				limit += w.g.cfg.StopTimeout
			}
			killAt = time.After(limit)
		case <-killAt:
			log.Error("guard-will-not-end", "pid", w.cmd.Process.Pid)
			w.kill()
		case <-tick.C:
			n++
			w.wakes()
			if err := w.look(n); err != nil {
				cause = err
				w.kill()
			}
		case <-work.C:
			w.wakes()
			again, err := w.lookAtWork()
			if w.looked.Sub(due) > watchEvery {
				again = watchEvery // it stood still: the news of the end may still be in the pipe
			}
			work.Reset(again)
			due = w.looked.Add(again)
			if err != nil {
				cause = err
				w.kill()
			}
		}
	}
}

// errKilled is why a guard process is gone that does not say it by its end.
var errKilled = errors.New("it was killed")

// gone tells whether the guard process is, once until has returned.
func (w *watch) gone() bool {
	if w.hangs {
		select {
		case <-w.exited:
			w.hangs = false
		default:
		}
	}
	return !w.hangs
}

// wakes notes whether this process stood still.
func (w *watch) wakes() {
	now := time.Now()
	w.stood.note(w.looked, watchEvery, now)
	w.looked = now
}

// lookAtWork finds out whether the guard process has stopped the work in time, and when to look
// again. It takes two looks in a row: the news of the end may still be in the pipe.
func (w *watch) lookAtWork() (again time.Duration, _ error) {
	late, again := w.g.overdue(w.l)
	if w.late++; !late {
		w.late = 0
	}
	if w.late < 2 {
		return again, nil
	}
	// A guard process that goes on while this one stands still ends the work with the lease. This
	// one stood still too, and has not had its turn yet.
	if !w.stood.to.IsZero() && w.looked.Sub(w.stood.to) < standLimit {
		w.both = w.stood
	}
	return again, errors.New("it has not stopped the work in time for the end of the lease")
}

// look finds out whether the guard process still answers, and has its lock.
func (w *watch) look(n int) error {
	if err := w.works(); err != nil {
		return err
	}
	patience, what := silentAfter, "answered"
	if w.token == "" {
		patience, what = startWithin, "started"
	}
	silent := w.l.silent()
	if !silent && n%pingEvery == 0 {
		w.l.ping()
	}
	if worked := w.l.hasWorked(); worked || !silent {
		w.unanswered = 0
	} else if w.unanswered++; w.unanswered >= patience {
		return fmt.Errorf("it has not %s for %v", what, time.Duration(patience)*watchEvery)
	}
	return nil
}

// works returns an error when no guard process, this one included, has worked for too long.
func (w *watch) works() error {
	unlocked := w.g.awaitsLock(w.l)
	switch {
	case w.token != "" && !unlocked:
		w.g.works()
	case !w.g.lacksTooLong():
	case w.token == "":
		return errors.New("it has not started")
	default:
		return fmt.Errorf("it could not have the lock under which alone anything may start (%s)",
			cmp.Or(w.lockErr, errLockHeld.Error()))
	}
	return nil
}

// hello takes in that the guard process has started: from now on it has silentAfter for an answer.
func (w *watch) hello(e event) {
	w.token, w.cgroup, w.lockErr, w.unanswered = e.Token, e.Cgroup, e.Err, 0
	w.limited = limits(e.PID, e.Token)
}

func (w *watch) kill() { w.l.destroy() }

// tellLosses tells of what the guard process said last.
func (w *watch) tellLosses() {
	for len(w.l.losses) > 0 {
		w.tellLoss(<-w.l.losses)
	}
}

func (w *watch) tellLoss(e event) {
	if e.Err == "" { // their item's output says it
		w.g.above.Add(uint64(e.Lines))
		return
	}
	w.g.unwritten.Add(uint64(e.Lines))
	w.g.cfg.Logger.Warn("output-lost", "lines", e.Lines, "item", e.Item, "err", e.Err)
}

// learnToken takes a hello that came just before the end.
func (w *watch) learnToken() {
	for {
		select {
		case e := <-w.l.news:
			if e.Kind == evHello {
				w.hello(e)
			}
		default:
			return
		}
	}
}
