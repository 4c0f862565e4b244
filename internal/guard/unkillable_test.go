//go:build linux

package guard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
)

// nobody is the user of an owner that is not to kill all that its commands start.
const nobody = 65534

// The lease of such an owner, renewed all the time.
const shortLease, shortMargin = 4 * time.Second, 3 * time.Second

// toldMain is an owner that does what it reads from standard input, and says how commands ended:
//
//	exec NAME COMMAND
//	stop NAME
//	session ID
//	bind
func toldMain() {
	g := guard.New(guard.Config{StopTimeout: 200 * time.Millisecond, Adopt: true,
		NoCgroups: os.Getenv(noCgroupsEnv) != "", LockFile: os.Getenv(lockEnv)})
	g.StuckAfter(8 * time.Second)
	ctx := context.Background()
	go func() {
		for {
			if err := g.Run(ctx); errors.Is(err, guard.ErrStuck) {
				fmt.Println("stuck:", err)
				return
			}
		}
	}()
	var mu sync.Mutex
	session, stops := "s1", map[string]func(){}
	renew := func() { g.Lease(session, time.Now().Add(shortLease), shortMargin) }
	renew()
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			mu.Lock()
			renew()
			mu.Unlock()
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		what, rest, _ := strings.Cut(in.Text(), " ")
		mu.Lock()
		switch what {
		case "exec":
			name, command, _ := strings.Cut(rest, " ")
			one, stop := context.WithCancel(ctx)
			stops[name] = stop
			spec := guard.Spec{Name: name, Command: command, Session: session}
			go func() { fmt.Println(name, "ended:", g.Exec(one, spec)) }()
		case "stop":
			stops[rest]()
		case "session":
			g.Lease("", time.Time{}, 0)
			session = rest
			renew()
		case "bind":
			for g.BindLock() == "" {
				time.Sleep(10 * time.Millisecond)
			}
			fmt.Println("bound")
		}
		mu.Unlock()
	}
	select {}
}

// told is such an owner, of the user nobody.
type told struct {
	*owner
	t    *testing.T
	in   io.Writer
	dir  string // where that user may write
	said chan string
}

func startTold(t *testing.T) *told {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir, err := os.MkdirTemp("", "unkillable")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chown(dir, nobody, nobody))
	setpriv, err := exec.LookPath("setpriv")
	must(t, err)
	program, err := os.ReadFile(setpriv)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "sudo"), program, 0o755))
	must(t, os.Chmod(filepath.Join(dir, "sudo"), 0o755|os.ModeSetuid))

	return startToldIn(t, dir)
}

// startToldIn starts a successor where one before has been.
func startToldIn(t *testing.T, dir string) *told {
	t.Helper()
	o := &told{t: t, dir: dir, said: make(chan string, 10),
		owner: &owner{cmd: exec.Command("/proc/self/exe")}}
	o.cmd.Env = append(os.Environ(), modeEnv+"=told", noCgroupsEnv+"=1",
		lockEnv+"="+filepath.Join(dir, "lock"))
	o.cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	o.cmd.Stderr = os.Stderr
	in, err := o.cmd.StdinPipe()
	must(t, err)
	o.in = in
	out, err := o.cmd.StdoutPipe()
	must(t, err)
	must(t, o.cmd.Start())
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			o.said <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = o.cmd.Process.Kill(); _ = o.cmd.Wait() })
	return o
}

// tell has it do something.
func (o *told) tell(format string, args ...any) {
	o.t.Helper()
	_, err := fmt.Fprintf(o.in, format+"\n", args...)
	must(o.t, err)
}

// asRoot is a command that runs in sh, as root, and leaves its process id in the file root. Its
// environment does not say whose it is: the guards of other tests, root's, would end it.
func (o *told) asRoot(before, command string) string {
	return fmt.Sprintf("%s/sudo --reuid 0 --regid 0 --clear-groups env -i PATH=\"$PATH\" "+
		"%s sh -c 'echo $$ > %s/root; %s'", o.dir, before, o.dir, command)
}

// root waits for that process.
func (o *told) root() int { return pids(o.t, filepath.Join(o.dir, "root"), 1)[0] }

// sleeps begins a command that sleeps, and returns its process id when it does.
func (o *told) sleeps(name string) int {
	o.t.Helper()
	file := filepath.Join(o.dir, name)
	o.tell("exec %s echo $$ > %s; exec sleep 1000", name, file)
	return pids(o.t, file, 1)[0]
}

// hears waits for a line that begins so.
func (o *told) hears(begin string) string {
	o.t.Helper()
	line := within(o.t, begin, o.said)
	if !strings.HasPrefix(line, begin) {
		o.t.Fatalf("it says %q, want %s", line, begin)
	}
	return line
}

// silent wants it to say nothing for so long.
func (o *told) silent(limit time.Duration) {
	o.t.Helper()
	select {
	case line := <-o.said:
		o.t.Errorf("it says %q", line)
	case <-time.After(limit):
	}
}

// ends kills a process, and waits for its end.
func (o *told) ends(pid int) {
	o.t.Helper()
	must(o.t, syscall.Kill(pid, syscall.SIGKILL))
	testkit.Eventually(o.t, "its end", func() bool { return !running(pid) })
}

func TestTheEndOfOneCommandDoesNotWaitForAnUnkillableDaemonOfAnother(t *testing.T) {
	o := startTold(t)
	o.tell("exec a (%s &); sleep 1000; true", o.asRoot("setsid", "exec sleep 1000"))
	daemon := o.root()
	o.sleeps("b")
	o.tell("stop b")
	o.hears("b ended: ")
	o.tell("stop a")
	o.silent(500 * time.Millisecond)
	if !running(daemon) {
		t.Fatal("the daemon has ended: this test shows nothing")
	}
	o.ends(daemon)
	o.hears("a ended: ")
}

// Where a session ends before its time, the work under it ends with its lease, and what does not
// die is no fault of the guard process: the work under the next session goes on.
func TestAnUnkillableProcessOfAnEndedSessionCostsTheNextOneNothing(t *testing.T) {
	o := startTold(t)
	o.tell("exec a %s & wait", o.asRoot("", "exec sleep 1000"))
	o.root()
	o.sleeps("b")
	o.tell("session s2")
	o.hears("b ended: ")
	c := o.sleeps("c")
	// By then the lease of the first session is over.
	o.silent(shortLease + 500*time.Millisecond)
	if !running(c) {
		t.Error("the work under the second session is gone")
	}
	o.ends(o.root())
	o.hears("a ended: ")
}

// What an unkillable process has started does not become the guard's, and is found all the same.
func TestWhatAnUnkillableProcessHasStartedIsKilledWithItsCommand(t *testing.T) {
	o := startTold(t)
	child := filepath.Join(o.dir, "child")
	o.tell("exec a exec %s", o.asRoot("",
		fmt.Sprintf("setpriv --reuid %d --regid %[1]d --clear-groups env -i setsid "+
			"sleep 1000 & echo $! > %s; wait; exec sleep 1000", nobody, child)))
	pid := pids(t, child, 1)[0]
	o.tell("stop a")
	testkit.Eventually(t, "the end of the child", func() bool { return !running(pid) })
	o.silent(200 * time.Millisecond)
	o.ends(o.root())
	if line := o.hears("a ended: "); !strings.Contains(line, ": stopped: ") {
		t.Errorf("it says %q, want that it was stopped", line)
	}
}

// An owner without descriptors does not see such a child, and ends it with the group.
func TestTheGroupOfAnUnkillableProcessIsKilledWithoutALook(t *testing.T) {
	o := startTold(t)
	b, child := o.sleeps("b"), filepath.Join(o.dir, "child")
	o.tell("exec a %s & wait", o.asRoot("", fmt.Sprintf(
		"setpriv --reuid %d --regid %[1]d --clear-groups env -i sleep 1000 & echo $! > %s; "+
			"wait; exec sleep 1000", nobody, child)))
	pid := pids(t, child, 1)[0]
	o.tell("exec limit prlimit --pid %d --nofile=3:3", o.cmd.Process.Pid)
	o.hears("limit ended: <nil>")
	must(t, syscall.Kill(parent(t, b), syscall.SIGKILL))
	testkit.Eventually(t, "the end of the child", func() bool { return !running(pid) })
	o.silent(200 * time.Millisecond)
	o.ends(o.root())
	for range 2 {
		o.hears("")
	}
}

// When the guard process is killed, the items wait that have something left, and no others.
func TestWhatADeadGuardLeftThatDoesNotDieHoldsUpItsOwnItemOnly(t *testing.T) {
	o := startTold(t)
	b := o.sleeps("b")
	o.tell("bind")
	o.hears("bound")
	o.tell("exec a %s & wait", o.asRoot("setsid", "exec sleep 1000"))
	left := o.root()
	for range 2 { // the next guard process, too
		must(t, syscall.Kill(parent(t, b), syscall.SIGKILL))
		o.hears("b ended: ")
		if !running(left) {
			t.Fatal("what was left is gone: this test shows nothing")
		}
		must(t, os.Remove(filepath.Join(o.dir, "b")))
		b = o.sleeps("b")
	}
	o.tell("stop a")
	o.silent(500 * time.Millisecond)
	o.ends(left)
	o.hears("a ended: ")
	a := o.sleeps("a") // its item goes on
	wantRunning(t, a, b)
}

// Nobody has told the successor of what the guard process before the last one has left, but the
// lock file.
func TestTheLockIsNotHadBeforeWhatAnEarlierGuardLeftIsGone(t *testing.T) {
	o := startTold(t)
	b := o.sleeps("b")
	o.tell("bind")
	o.hears("bound")
	o.tell("exec a %s & wait", o.asRoot("setsid", "exec sleep 1000"))
	left := o.root()
	must(t, syscall.Kill(parent(t, b), syscall.SIGKILL))
	o.hears("b ended: ")
	second := parent(t, o.sleeps("c"))
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range []int{o.cmd.Process.Pid, second} {
			must(t, syscall.Kill(pid, sig))
		}
	}
	next := startToldIn(t, o.dir)
	next.tell("bind")
	next.silent(time.Second)
	next.ends(left)
	next.hears("bound")
}

// Whose it is cannot be told under another's limit: then no item's work is said to have ended.
func TestWhatADeadGuardLeftThatDoesNotDieAndMayBeAnyonesEndsItsOwner(t *testing.T) {
	underALimit(t)
	o := startTold(t)
	o.tell("exec a %s & wait", o.asRoot("setsid", "exec sleep 1000"))
	left := o.root()
	b := o.sleeps("b")
	must(t, syscall.Kill(parent(t, b), syscall.SIGKILL))
	if line := o.hears("stuck: "); !strings.Contains(line, fmt.Sprint(left)) {
		t.Errorf("it says %q, want process %d", line, left)
	}
	o.silent(100 * time.Millisecond)
	wantRunning(t, left)
}

func wantRunning(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if !running(pid) {
			t.Errorf("process %d is gone", pid)
		}
	}
}
