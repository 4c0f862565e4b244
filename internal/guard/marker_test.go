//go:build linux

package guard

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
	"golang.org/x/sys/unix"
)

// As one that closes a file of a server that is away: its first thread is a zombie, and another one
// does not end. Here that one is held by whoever traces it.
func TestAProcessThatHangsInItsExitKeepsNobodyFromALock(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	hung := exec.Command("/proc/self/exe")
	hung.Env = append(os.Environ(), "GUARD_TEST_MODE=headless")
	if err := hung.Start(); err != nil {
		t.Fatal(err)
	}
	pid, traced := hung.Process.Pid, 0
	testkit.Eventually(t, "that its first thread ends", func() bool {
		s, err := readStat(pid)
		return err == nil && s.Leaving
	})
	ids, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, id := range ids {
		if tid, _ := strconv.Atoi(id.Name()); tid != pid && err == nil {
			traced, err = tid, unix.PtraceSeize(tid)
			break
		}
	}
	_ = hung.Process.Kill()
	defer func() { _ = hung.Wait() }()
	if err != nil || traced == 0 {
		t.Fatalf("no thread (%d) can be traced: %v: allow ptrace of one's own children", traced, err)
	}
	defer func() { _, _ = unix.Wait4(traced, nil, unix.WALL, nil) }()
	testkit.Eventually(t, "that all but its last thread end", func() bool {
		ids, err := threadsOf(pid)
		s, bad := readStat(traced)
		return err == nil && len(ids) == 3 && bad == nil && s.Leaving
	})
	if s, err := readStat(pid); err != nil || s.Gone || s.Ending {
		t.Fatalf("it is %+v (%v): this test shows nothing", s, err)
	}
	if mark, err := marker(pid); mark != "" || err != nil {
		t.Errorf("its marker is %q, %v", mark, err)
	}
}
