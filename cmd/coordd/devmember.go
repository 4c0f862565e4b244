package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// devMemberCommand is the hidden command that dev starts its members with. What follows is the
// command line of an ordinary member.
const devMemberCommand = "dev-member"

// Times of dev's members. A take-over takes 8.5 s at the most with them, see run --explain-timing.
const (
	devLease      = 4 * time.Second
	devCheckTTL   = 2 * time.Second
	devLeaderSoak = time.Second
	// devStop is what a member gets to stop cleanly: dev ends within two seconds.
	devStop = 1200 * time.Millisecond
)

// endWithParent ends this process when the one that holds its standard input has ended, however
// that ended.
func endWithParent() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(exitFailed)
	}()
}

// devMember is a member of dev: a process that runs coordd run, and what was done to it. A real
// process, for what SIGKILL and SIGSTOP do cannot be played inside of one.
type devMember struct {
	id     string
	path   string // of the binary
	args   []string
	env    []string
	stderr io.Writer
	log    *slog.Logger
	way    *devWay
	again  chan struct{} // an order to start it again

	mu      sync.Mutex
	process *os.Process // nil: none runs
	ended   string      // "killed" by a button, or "ended" by itself
	frozen  bool
}

// run keeps the process up until ctx ends. One that has ended waits for the order to be started
// again.
func (m *devMember) run(ctx context.Context) error {
	for {
		if err := m.live(ctx); err != nil {
			return err
		}
		select {
		case <-m.again:
		case <-ctx.Done():
			return nil
		}
	}
}

// live starts the process and waits for its end.
func (m *devMember) live(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, m.path, append([]string{devMemberCommand}, m.args...)...)
	cmd.Args[0] = "coordd"
	cmd.Env, cmd.Stderr = m.env, m.stderr
	// Ctrl-C is for dev alone, which then stops its members in its own order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		m.way.setCut(false)
		_ = cmd.Process.Signal(syscall.SIGCONT)
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = devStop
	if _, err := cmd.StdinPipe(); err != nil { // it ends with this process: see endWithParent
		return fmt.Errorf("starting %s: %w", m.id, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", m.id, err)
	}
	m.begun(cmd.Process)
	err := cmd.Wait()
	if m.over(cmd.Process) && ctx.Err() == nil {
		m.log.Warn("member-ended", "member", m.id, "how", fmt.Sprint(err), "do",
			"start it again on the page")
	}
	return nil
}

func (m *devMember) begun(p *os.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process, m.ended, m.frozen = p, "", false
	select {
	case <-m.again: // it was asked for twice
	default:
	}
}

// over notes that a process has ended, and tells whether it did so by itself.
func (m *devMember) over(p *os.Process) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != p {
		return false
	}
	m.process, m.ended, m.frozen = nil, "ended", false
	return true
}

var errNotRunning = errors.New("its process does not run: start it again")

// kill kills the process as kill -9 does.
func (m *devMember) kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return errNotRunning
	}
	if err := m.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	m.process, m.ended, m.frozen = nil, "killed", false
	return nil
}

// freeze stops the process as kill -STOP does, or lets it go on.
func (m *devMember) freeze(frozen bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return errNotRunning
	}
	s := syscall.SIGCONT
	if frozen {
		s = syscall.SIGSTOP
	}
	if err := m.process.Signal(s); err != nil {
		return err
	}
	m.frozen = frozen
	return nil
}

// start starts the process again.
func (m *devMember) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		return errors.New("it runs already")
	}
	select {
	case m.again <- struct{}{}:
	default: // it was asked for a moment ago
	}
	return nil
}

// devState is what was done to a member.
type devState struct {
	up, frozen, cut, drained bool
	ended                    string
}

// words say it; empty: nothing.
func (s devState) words() string {
	var all []string
	if s.ended != "" {
		all = append(all, s.ended)
	}
	if s.frozen {
		all = append(all, "frozen")
	}
	if s.cut {
		all = append(all, "cut off from Consul")
	}
	return strings.Join(all, ", ")
}

func (m *devMember) state() devState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return devState{up: m.process != nil, ended: m.ended, frozen: m.frozen, cut: m.way.isCut()}
}

func (m *devMember) child() supervisor.Child {
	return supervisor.Child{Name: m.id, Run: m.run, StopTimeout: 2 * devStop}
}

// bareEnvironment is an environment without what would be settings of a member, or make it speak
// for dev to systemd.
func bareEnvironment(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "COORDD_") || strings.HasPrefix(name, "CONSUL_") ||
			slices.Contains([]string{"BACKEND", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"},
				name)
	})
}
