//go:build linux && coordd_long

package e2e_test

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// systemd is the socket that the service manager hears its services on.
type systemd struct {
	t    *testing.T
	path string

	mu    sync.Mutex
	lines []string // of all messages, in order
}

func newSystemd(t *testing.T) *systemd {
	t.Helper()
	s := &systemd{t: t, path: filepath.Join(scratch, fmt.Sprintf("notify-%d", programs.Add(1)))}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path, Net: "unixgram"})
	must(t, err)
	var reader sync.WaitGroup
	reader.Go(func() {
		for b := make([]byte, 4096); ; {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.lines = append(s.lines, strings.Split(string(b[:n]), "\n")...)
			s.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		conn.Close()
		reader.Wait()
	})
	return s
}

// told is what came since the first n lines.
func (s *systemd) told(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines[n:])
}

// await waits for a line after the first n, and returns how many there were with it.
func (s *systemd) await(n int, what string) int {
	s.t.Helper()
	at := -1
	testkit.Await(s.t, startLimit, "systemd hears "+what, func() string {
		if at = slices.Index(s.told(n), what); at < 0 {
			return fmt.Sprintf("%q", s.told(0))
		}
		return ""
	})
	return n + at + 1
}

func (s *systemd) env() []string {
	return []string{"NOTIFY_SOCKET=" + s.path, "WATCHDOG_USEC=2000000"}
}

func TestSystemdHearsHowAMemberDoes(t *testing.T) {
	t.Parallel()
	consul := realconsul.Start(t, realconsul.Options{})
	manager := newSystemd(t)
	s := newService(t, consul.Addr())
	s.env = manager.env()
	n1 := s.start("n1")
	n := manager.await(0, "READY=1")
	if wrong := s.now().unlike(1, 0); wrong != "" && !strings.Contains(wrong, "leads") {
		t.Errorf("a member that is ready is not registered: %s", wrong)
	}
	s.share(3)
	n = manager.await(n, "STATUS=3 items run; leads")
	n = manager.await(manager.await(n, "WATCHDOG=1"), "WATCHDOG=1")

	// The commands and the guard process do not speak for the member.
	if pids := marked(t, "NOTIFY_SOCKET="+manager.path); !slices.Equal(pids, []int{n1.PID}) {
		t.Errorf("processes %v know the socket; the member is %d", pids, n1.PID)
	}

	// A member that waits for Consul is not restarted for that.
	must(t, consul.Servers[0].Freeze())
	n = manager.await(n, "STATUS=waits for Consul: its lease is over, and no item runs")
	for range 3 {
		n = manager.await(n, "WATCHDOG=1")
	}
	must(t, consul.Servers[0].Thaw())
	n = manager.await(n, "STATUS=3 items run; leads")

	n1.signal(syscall.SIGTERM)
	if code, _ := n1.ends(workLimit); code != 0 {
		t.Errorf("exit code %d", code)
	}
	n = manager.await(n, "STOPPING=1")
	if after := manager.told(n); len(after) < 2 || !strings.HasPrefix(after[1],
		"EXTEND_TIMEOUT_USEC=") {
		t.Errorf("after the stop it heard %q", after)
	}
	if all := manager.told(0); strings.Count(strings.Join(all, "\n"), "READY=1") != 1 {
		t.Errorf("it heard READY=1 more than once: %q", all)
	}
}

// A host's boot does not wait for Consul, which may be started later.
func TestAMemberIsReadyAlsoWhileItWaitsForConsul(t *testing.T) {
	t.Parallel()
	manager := newSystemd(t)
	p := launch(t, manager.env(), "run", "--id", "n1", "--consul", "127.0.0.1:1", "--exec",
		"sleep 1000")
	n := manager.await(0, "READY=1")
	if all := manager.told(0); !slices.Contains(all, "STATUS=waits for Consul: no item runs") {
		t.Errorf("it heard %q", all)
	}
	n = manager.await(n, "WATCHDOG=1")
	p.signal(syscall.SIGTERM)
	manager.await(n, "STOPPING=1")
	if code, _ := p.ends(workLimit); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A reload begins and ends in systemd's view: `systemctl reload` returns when it is over.
func TestSystemdHearsOfAReload(t *testing.T) {
	t.Parallel()
	manager := newSystemd(t)
	p := launch(t, manager.env(), "run", "--id", "n1", "--consul", "127.0.0.1:1", "--config",
		"/dev/null")
	n := manager.await(0, "READY=1")
	p.signal(syscall.SIGHUP)
	n = manager.await(n, "RELOADING=1")
	if after := manager.told(n); len(after) == 0 || !strings.HasPrefix(after[0],
		"MONOTONIC_USEC=") {
		t.Errorf("after RELOADING=1 it heard %q", after)
	}
	manager.await(n, "READY=1")
	p.signal(syscall.SIGTERM)
	if code, _ := p.ends(workLimit); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
