//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// watchEvery is the period at which the owner looks after its guard.
	watchEvery = 50 * time.Millisecond
	// pingEvery and silentAfter count these periods and not time: an owner that was frozen itself
	// must not hold that against its guard.
	pingEvery   = 20
	silentAfter = 200
	// stopSlack is what the guard gets beyond the stop timeout to end when told to.
	stopSlack = 3 * time.Second
)

// Run keeps one guard process up until ctx ends, and then returns nil when it and every command are gone.
// When the guard process dies or stops answering, Run kills what it left, ends the running Execs
// with ErrLost, and returns an error that wraps ErrLost: call it again. It leaves no goroutine. One Run at a time.
func (g *Guard) Run(ctx context.Context) error {
	if err := g.cfg.Validate(); err != nil {
		return err
	}
	g.mu.Lock()
	busy := g.running
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

	cmd, l, err := g.spawn()
	if err != nil {
		return fmt.Errorf("guard: start the guard process: %w", err)
	}
	exited := make(chan struct{})
	stopWriter := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { l.write(stopWriter) })
	helpers.Go(l.read)
	helpers.Go(func() { defer close(exited); _ = cmd.Wait() }) // its state is read below

	w := watch{g: g, l: l, cmd: cmd, exited: exited}
	cause := w.until(ctx)

	// The guard process is gone from here on. What it said last is still in the pipe; nobody else holds
	// its other end, and should the impossible happen, this must not hang.
	_ = l.events.SetReadDeadline(time.Now().Add(stopSlack))
	g.unpublish(l)
	close(stopWriter)
	_ = l.in.Close()
	helpers.Wait()
	_ = l.events.Close()
	w.clearAway()
	l.fail(cause)
	if cause == nil {
		return nil
	}
	return fmt.Errorf("guard: %w: %w", ErrLost, cause)
}

// spawn starts the process, in a session of its own: the terminal's signals are for the owner.
func (g *Guard) spawn() (_ *exec.Cmd, _ *link, err error) {
	argv, err := g.argv()
	if err != nil {
		return nil, nil, err
	}
	cmdR, cmdW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer cmdR.Close()
	evR, evW, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, cmdW.Close())
	}
	defer evW.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = cmdR, g.cfg.Stdout, g.cfg.Stderr
	cmd.ExtraFiles = []*os.File{evW} // eventsFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), lockEnv+"="+g.cfg.LockFile)
	if g.cfg.Argv == nil {
		cmd.Args[0] = os.Args[0]
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, cmdW.Close(), evR.Close())
	}
	return cmd, newLink(cmdW, evR), nil
}

func (g *Guard) argv() ([]string, error) {
	if g.cfg.Argv != nil {
		return g.cfg.Argv, nil
	}
	exe := selfExe
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	return []string{exe, "guard"}, nil
}

func (g *Guard) publish(l *link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lease.Boot != 0 {
		l.setLease(g.lease)
	}
	if g.farewell.Words != nil {
		l.setFarewell(g.farewell)
	}
	g.link = l
	close(g.up)
}

func (g *Guard) unpublish(l *link) {
	l.refuse()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.link == l {
		g.link = nil
		g.up = make(chan struct{})
	}
	close(l.unlinked)
}

// overdue reports whether the time is over by which the guard must have killed everything, with
// a quarter of what was left for that to take effect gone as well.
func (g *Guard) overdue() bool {
	g.mu.Lock()
	l := g.lease
	g.mu.Unlock()
	return l.Boot != 0 && l.untilKill() < -l.killLead()/4
}

// watch is one guard process seen by Run.
type watch struct {
	g      *Guard
	l      *link
	cmd    *exec.Cmd
	exited <-chan struct{}
	token  string

	unanswered, pings, late int
}

// until returns when the guard process is gone: nil when that was because ctx ended, else why.
func (w *watch) until(ctx context.Context) error {
	log := w.g.cfg.Logger
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	stop, stopping := ctx.Done(), false
	var killAt <-chan time.Time
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
		case e := <-w.l.news:
			if e.Swept > 0 {
				log.Warn("leftovers-killed", "processes", e.Swept)
			}
			if e.Kind == evLocked {
				log.Info("commands-of-predecessor-gone", "waited", time.Since(waiting).Round(time.Millisecond).String())
				continue
			}
			w.token = e.Token
			if e.Protocol != protocol {
				cause = fmt.Errorf("it speaks version %d and this is version %d: restart coordd", e.Protocol, protocol)
				w.kill()
				continue
			}
			log.Debug("guard-started", "pid", e.PID)
			waiting = time.Now()
			switch {
			case e.Err != "":
				log.Error("lock-not-taken", "err", e.Err)
			case w.g.cfg.LockFile != "" && !e.Locked:
				log.Info("waiting-for-commands-of-predecessor", "lock_file", w.g.cfg.LockFile)
			}
			if !stopping {
				w.g.publish(w.l)
				if w.g.cfg.Up != nil {
					w.g.cfg.Up(ctx)
				}
			}
		case <-stop:
			stop, stopping = nil, true
			w.l.end()
			killAt = time.After(w.g.cfg.StopTimeout + stopSlack)
		case <-killAt:
			log.Error("guard-will-not-end", "pid", w.cmd.Process.Pid)
			w.kill()
		case <-tick.C:
			n++
			if err := w.look(n); err != nil {
				cause = err
				w.kill()
			}
		}
	}
}

// look finds out whether the guard process still does its work.
func (w *watch) look(n int) error {
	// Two looks in a row: after a freeze the news of the end may still be in the pipe.
	if w.late++; !w.g.overdue() || len(w.l.started()) == 0 {
		w.late = 0
	}
	if w.late >= 2 {
		return errors.New("it has not stopped the work in time for the end of the lease")
	}
	if w.l.answered() == w.pings {
		w.unanswered = 0
		if n%pingEvery == 0 {
			w.pings++
			w.l.ping()
		}
	} else if w.unanswered++; w.unanswered >= silentAfter {
		return fmt.Errorf("it has not answered for %v", silentAfter*watchEvery)
	}
	return nil
}

func (w *watch) kill() { _ = w.cmd.Process.Kill() }

// learnToken takes a hello that came just before the end.
func (w *watch) learnToken() {
	for {
		select {
		case e := <-w.l.news:
			if e.Kind == evHello {
				w.token = e.Token
			}
		default:
			return
		}
	}
}

// clearAway kills what the guard process left and returns when it is gone. It does not give up: a
// command that ended in name only must not be started elsewhere.
func (w *watch) clearAway() {
	pause := time.Millisecond
	warned := false
	for begin := time.Now(); ; time.Sleep(pause) {
		live := killLeftovers(w.cmd.Process.Pid, w.token, w.l.started())
		if len(live) == 0 {
			return
		}
		if !warned && time.Since(begin) > stopSlack {
			warned = true
			w.g.cfg.Logger.Error("processes-will-not-die", "pids", live)
		}
		pause = min(2*pause, time.Second)
	}
}
