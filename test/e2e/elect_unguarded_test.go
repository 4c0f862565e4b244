//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// A host that has no file left for the pipes of a guard process runs no command. Its candidate
// leaves the election to others until it can, though its priority is the highest.
func TestACandidateThatCanStartNoGuardProcessDoesNotStand(t *testing.T) {
	t.Parallel()
	e := &contest{t: t, dir: workDir(t), name: "unguarded", candidates: map[string]*program{},
		flags: []string{"--consul", realconsul.Shared(t).Addr(), "--prefix", realconsul.Prefix(t)}}
	e.run("n1", "--priority", "9")
	e.leads("n1")
	e.run("n2")
	n1 := e.candidates["n1"]
	guards := childrenOf(t, n1.PID)
	if len(guards) != 1 {
		t.Fatalf("n1 has the children %v, want its guard process", guards)
	}
	var limit unix.Rlimit
	must(t, unix.Prlimit(n1.PID, unix.RLIMIT_NOFILE, nil, &limit))
	// The two that the guard process leaves behind are enough to ask Consul. The next one needs four.
	few := unix.Rlimit{Max: limit.Max}
	for isOpen(n1.PID, few.Cur) {
		few.Cur++
	}
	must(t, unix.Prlimit(n1.PID, unix.RLIMIT_NOFILE, &few, nil))
	must(t, syscall.Kill(guards[0], syscall.SIGKILL))
	e.leads("n2")
	e.run("n3")
	e.candidates["n2"].signal(syscall.SIGTERM)
	e.leads("n3")
	if n := strings.Count(n1.stderr(), "msg=became-leader"); n != 1 {
		t.Errorf("n1 became leader %d times, and could run its command once", n)
	}
	must(t, unix.Prlimit(n1.PID, unix.RLIMIT_NOFILE, &limit, nil))
	testkit.Await(t, electLimit, "n1 is a candidate again", func() string {
		return e.unlike("n1", "waits")
	})
	e.candidates["n3"].signal(syscall.SIGTERM)
	e.leads("n1")
	e.judge("n1", "n2", "n3", "n1")
}

func isOpen(pid int, file uint64) bool {
	_, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, file))
	return err == nil
}
