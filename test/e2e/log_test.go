//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// fill writes into a pipe that nobody reads until it takes no more. The end that is opened for that
// does not block; the one that others hold does.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd, err := syscall.Open(fmt.Sprintf("/proc/self/fd/%d", w.Fd()),
		syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	defer syscall.Close(fd)
	for {
		if _, err := syscall.Write(fd, []byte{'x'}); errors.Is(err, syscall.EAGAIN) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// pipe is one whose ends are closed with the test; to close one sooner is no fault.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

func stopsCleanly(t *testing.T, s *service, id string) {
	t.Helper()
	p := s.members[id]
	p.signal(syscall.SIGTERM)
	if code, took := p.ends(workLimit); code != 0 {
		t.Errorf("%s stopped with exit code %d after %v", id, code, took)
	}
	delete(s.members, id)
}

// The pipe of a leader's standard error is full, and nobody reads it: it is stopped in the debugger
// of a terminal, or a service manager's reader hangs. The leader takes over from a dead member,
// gives up what it must, and stops as it always does.
func TestAMemberWhoseLogNobodyReadsLeadsAndStops(t *testing.T) {
	t.Parallel()
	_, w := pipe(t)
	s := newService(t, realconsul.Shared(t).Addr())
	s.stderr = w
	s.start("n1", "--log-level", "debug")
	testkit.Await(t, startLimit, "n1 leads", func() string { return s.now().unlike(1, 0) })
	s.stderr = nil
	s.start("n2")
	s.start("n3")
	testkit.Await(t, startLimit, "three members", func() string { return s.now().unlike(3, 0) })
	fill(t, w)
	items := s.share(60)
	its, mark := s.of("n3"), s.mark()
	s.members["n3"].Kill()
	delete(s.members, "n3")
	testkit.Await(t, takeover+workLimit, "the items of the killed member run elsewhere",
		func() string {
			if n := len(s.since(mark).starts()); n < len(its) {
				return fmt.Sprintf("%d of %d", n, len(its))
			}
			return ""
		})
	s.runs(items)
	stopsCleanly(t, s, "n1")
	s.runs(items)
}

// Who read the log is gone: a service manager that was restarted, a "| tee" that was killed. A
// write to it is an error then, and the kernel sends SIGPIPE, which ends a process that does not
// look out for it.
func TestAMemberWhoseLogsReaderIsGoneGoesOn(t *testing.T) {
	t.Parallel()
	r, w := pipe(t)
	s := newService(t, realconsul.Shared(t).Addr())
	s.stderr = w
	s.start("n1", "--log-level", "debug")
	testkit.Await(t, startLimit, "n1 leads", func() string { return s.now().unlike(1, 0) })
	must(t, r.Close())
	s.runs(s.share(10))
	stopsCleanly(t, s, "n1")
}

// A second signal ends coordd at once, whoever reads what it says.
func TestASecondSignalEndsAMemberWhoseLogNobodyReads(t *testing.T) {
	t.Parallel()
	_, w := pipe(t)
	fill(t, w)
	s := newService(t, realconsul.Shared(t).Addr())
	s.stderr = w
	begun := filepath.Join(t.TempDir(), "begun")
	s.exec = "trap '' TERM; : >" + begun + "; while :; do sleep 1; done"
	// neither has an end while it is waited for
	s.members["n1"] = s.launch("n1", "--stop-timeout", "4m", "--ttl", "10m")
	s.do("work", "add", "stubborn")
	testkit.Await(t, startLimit, "its command runs", func() string {
		if _, err := os.Stat(begun); err != nil {
			return err.Error()
		}
		return ""
	})
	p := s.members["n1"]
	delete(s.members, "n1")
	for begin := time.Now(); p.Running() &&
		time.Since(begin) < workLimit; time.Sleep(500 * time.Millisecond) {
		// one that comes before the first was taken in is no second one
		_ = syscall.Kill(p.PID, syscall.SIGTERM)
	}
	if code, took := p.ends(workLimit); code != 1 {
		t.Errorf("exit code %d after %v", code, took)
	}
}
