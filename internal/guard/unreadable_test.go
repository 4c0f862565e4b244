//go:build linux

package guard_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/proc"
	"github.com/coordd/coordd/internal/testkit"
)

// unreadableEnv is a file for the process id of a process that takes the memory of its environment
// away.
const unreadableEnv = "GUARD_TEST_UNREADABLE"

// unreadable is such a process: as one that packs itself, or that was restored from a checkpoint.
func unreadable() {
	file := os.Getenv(unreadableEnv)
	s, err := proc.Read("self")
	if err != nil {
		panic(err)
	}
	page := uint64(os.Getpagesize())
	// The first page may hold a part of the stack.
	first, end := (s.EnvStart+page-1)/page*page, (s.EnvEnd+page-1)/page*page
	if err := os.WriteFile(file+".new", fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		panic(err)
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_MUNMAP, uintptr(first), uintptr(end-first),
		0); e != 0 {
		panic(e)
	}
	if err := os.Rename(file+".new", file); err != nil {
		panic(err)
	}
	for {
		time.Sleep(time.Hour)
	}
}

// unreadableBy is the environment that makes it one, with its process id in file. It takes pages.
func unreadableBy(file string) []string {
	return []string{modeEnv + "=unreadable", unreadableEnv + "=" + file,
		"FILL=" + strings.Repeat("x", 4*os.Getpagesize())}
}

// startUnreadable starts one that is nobody's.
func startUnreadable(t *testing.T) (pid int) {
	t.Helper()
	other := exec.Command("/proc/self/exe")
	file := filepath.Join(t.TempDir(), "pid")
	other.Env = append(os.Environ(), unreadableBy(file)...)
	must(t, other.Start())
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	return pids(t, file, 1)[0]
}

func TestALockIsHadBesideAProcessWhoseEnvironmentCannotBeRead(t *testing.T) {
	other := startUnreadable(t)
	f, _ := locking(t, filepath.Join(t.TempDir(), "lock"))
	f.locked()
	if !running(other) {
		t.Error("it was killed")
	}
}

func TestTheEndOfADeadGuardsWorkIsSeenBesideAProcessWhoseEnvironmentCannotBeRead(t *testing.T) {
	deadGuardsWorkEnds(t, func(t *testing.T) { startUnreadable(t) })
}

// It is killed like one that has nothing in its environment.
func TestADaemonWhoseEnvironmentCannotBeReadEndsWithItsCommand(t *testing.T) {
	confined(t, func(t *testing.T, cfg guard.Config) {
		exe, err := os.Executable()
		must(t, err)
		f := start(t, cfg)
		file := f.path("pid")
		ended := f.exec(t.Context(), guard.Spec{Name: "a", Command: "(setsid " + exe + ` &)
while ! [ -e ` + file + ` ]; do sleep 0.01; done`,
			Env: unreadableBy(file)})
		daemon := pids(t, file, 1)[0]
		if err := within(t, "the end", ended); err != nil {
			t.Error(err)
		}
		wantGone(t, daemon)
	})
}

// Nobody but its own user, and root, sees the environment of such a process, nor where it is. Of
// the process itself not every Linux says that it may not be read: it shows an empty one.
func TestAProcessOfAnotherUserWithoutItsFirstThreadIsNotWaitedFor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	other := exec.Command("/proc/self/exe")
	other.Env = append(os.Environ(), modeEnv+"=headless")
	must(t, other.Start())
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	testkit.Eventually(t, "its first thread ends", func() bool {
		return state(other.Process.Pid) == 'Z'
	})
	look := exec.Command("/proc/self/exe", fmt.Sprint(other.Process.Pid))
	look.Env = append(os.Environ(), modeEnv+"=another's")
	look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := look.CombinedOutput()
	if said := strings.TrimSpace(string(out)); err != nil || said != "true" {
		t.Errorf("that it is hidden is %s (%v), and then it is about to execute a program, "+
			"for ever", said, err)
	}
}
