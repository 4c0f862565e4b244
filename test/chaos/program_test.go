//go:build linux

package chaos_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/internal/testkit"
)

// program is one run of a member's process. It dies with the test process, however that ends, and
// its children with it.
type program struct {
	*testkit.Child
	proc    string         // member#run, as in a history
	mark    string         // what everything that it starts has in its environment
	log     string         // a file
	history string         // what it writes with --history
	stood   [][2]time.Time // when it, or all of its family, stood still
	robbed  []time.Time    // when its session may have been ended early; under world.mu
	killed  time.Time      // when it still lived, just before it got SIGKILL
	// wanted says that the test has asked for the end: any other is a failure.
	wanted atomic.Bool
}

// run starts the binary. What is set for the test, or for its machine, is not for the program under
// test.
func run(binary, proc, dir string, env []string, args ...string) (*program, error) {
	p := &program{proc: proc, mark: "CHAOS_MARK=" + dir + "/" + proc}
	f, err := os.CreateTemp(scratch, "log-")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p.log, p.history = f.Name(), f.Name()+".history"
	cmd := exec.Command(binary, append(args, "--history", p.history)...)
	cmd.Stdout, cmd.Stderr = f, f
	// What would lead to a directory for locks before TMPDIR does goes too.
	cmd.Env = append(testkit.Environ("COORDD_", "CONSUL_", "GO", "CHAOS_", "XDG_RUNTIME_DIR=",
		"RUNTIME_DIRECTORY="), append(env, "CHAOS_DIR="+dir, "CHAOS_PROC="+proc, p.mark)...)
	if p.Child, err = testkit.StartChild(cmd); err != nil {
		return nil, err
	}
	return p, nil
}

// end sends a signal that is to end the process.
func (p *program) end(s syscall.Signal) {
	p.wanted.Store(true)
	if p.Running() {
		if s == syscall.SIGKILL {
			p.killed = time.Now()
		}
		_ = syscall.Kill(p.PID, s)
	}
}

// family lists the process, its guard and all the work: whoever has the mark of this run in the
// environment.
func (p *program) family() []int {
	pids, _ := testkit.Marked(p.mark)
	return pids
}

// works tells whether a process is of an item's command, and not a guard.
func works(pid int) bool { return testkit.HasVariables(pid, "COORDD_ITEM=") }

// guards lists the process's guard; there is none while it is being replaced.
func (p *program) guards() []int {
	return slices.DeleteFunc(p.family(), func(pid int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		return len(after) < 2 || after[1] != strconv.Itoa(p.PID)
	})
}

// birthOf is when a process began, by the kernel: with its number it names the process. 0: there is
// none. A zombie counts as gone.
func birthOf(pid int) uint64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// from the third field of proc_pid_stat(5) on
	after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(after) < 20 || after[0] == "Z" || after[0] == "X" {
		return 0
	}
	began, _ := strconv.ParseUint(after[19], 10, 64)
	return began
}

// bootTicks is the present by the clock of birthOf: hundredths of a second since the host's start.
func bootTicks() uint64 {
	b, _ := os.ReadFile("/proc/uptime")
	up, _, _ := strings.Cut(string(b), " ")
	ticks, _ := strconv.ParseUint(strings.ReplaceAll(up, ".", ""), 10, 64)
	return ticks
}

// told returns what the process wrote down itself, with what it cannot know: when it stood still,
// when its session was ended under it, and that it was killed.
func (p *program) told() ([]history.Event, error) {
	f, err := os.Open(p.history)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // it has just begun
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	events, err := history.Read(f)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	if last := events[len(events)-1]; !p.killed.IsZero() && last.Verb != history.End {
		at := p.killed
		if last.At.After(at) { // written between the look at the clock and the signal
			at = last.At
		}
		events = append(events, history.Event{At: at, Verb: history.Dead, Proc: last.Proc})
	}
	endWithStand(events, p.stood)
	for _, at := range p.robbed {
		events = append(events, history.Event{At: at, Verb: history.Early, Proc: events[0].Proc})
	}
	for _, w := range p.stood {
		events = append(events, history.Event{At: w[0], Verb: history.Freeze, Proc: events[0].Proc},
			history.Event{At: w[1], Verb: history.Thaw, Proc: events[0].Proc})
	}
	return events, nil
}

// endWithStand ends what was at work when its process began to stand still for longer than its
// lease. The process itself says so when it has made sure, which takes a busy machine seconds; when
// the commands ended their locks tell, and the children's history has that.
func endWithStand(events []history.Event, stood [][2]time.Time) {
	for _, w := range stood {
		if w[1].Sub(w[0]) <= ttl {
			continue
		}
		open := map[string]bool{}
		for i := range events {
			switch e := &events[i]; {
			case e.Verb == history.Start && e.At.Before(w[0]):
				open[e.Item] = true
			case e.Verb == history.Stop && e.At.Before(w[0]):
				delete(open, e.Item)
			case e.Verb == history.Stop && open[e.Item]:
				e.At = w[0].Add(-time.Microsecond)
				delete(open, e.Item)
			}
		}
	}
}

func TestWorkEndsWhereItsProcessStoodStillForLongerThanItsLease(t *testing.T) {
	t.Parallel()
	at := func(s float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second)))
	}
	line := func(s float64, verb history.Verb, item string) history.Event {
		return history.Event{At: at(s), Verb: verb, Proc: "m1", Item: item, Token: 5}
	}
	events := []history.Event{
		line(0, history.Start, "a"), line(1, history.Start, "b"), line(2, history.Stop, "b"),
		line(24, history.Stop, "a"), line(25, history.Start, "a"), line(30, history.Stop, "a"),
	}
	endWithStand(events, [][2]time.Time{{at(3), at(22)}, {at(26), at(29)}})
	for i, want := range []float64{0, 1, 2, 3, 25, 30} {
		if got := events[i].At; got.Sub(at(want)).Abs() > time.Millisecond {
			t.Errorf("line %d is at %v, not %v", i, got, at(want))
		}
	}
}

func (p *program) tail(n int) string {
	end := "still running"
	if !p.Running() {
		end = fmt.Sprintf("exit code %d", p.Code)
	}
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return p.proc + ", " + end + ":\n" + testkit.Tail(string(b), n)
}

// suspended are processes that stand still. Their thaw is in the hands of a process of its own,
// which does it also when the test process dies: a frozen guard would otherwise stay for ever.
type suspended struct {
	keeper *exec.Cmd
	thaw   func() error
}

// suspend stops a whole family, as a host that is suspended does. It returns when everything in it
// stands still.
func (p *program) suspend() (*suspended, error) {
	var all []int
	for range 20 { // until nobody is new: one that was about to be stopped may have had a child
		found := false
		for _, pid := range p.family() {
			if !slices.Contains(all, pid) {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				all, found = append(all, pid), true
			}
		}
		if !found {
			break
		}
	}
	args := "read -r never; kill -CONT"
	for _, pid := range all {
		args += " " + strconv.Itoa(pid)
	}
	s := &suspended{keeper: exec.Command("sh", "-c", args+" 2>/dev/null; true")}
	// A group of its own: a Ctrl-C in the terminal must not end it before it has done its work.
	s.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := s.keeper.StdinPipe()
	if err == nil {
		err = s.keeper.Start()
	}
	if err != nil {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		return nil, err
	}
	s.thaw = func() error {
		in.Close()
		return s.keeper.Wait()
	}
	return s, nil
}
