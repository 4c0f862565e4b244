//go:build unix

package sdnotify_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/sdnotify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager plays systemd: a socket of datagrams.
func manager(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return conn
}

func TestLinesArriveAsOneMessage(t *testing.T) {
	socket := manager(t)
	t.Setenv("WATCHDOG_USEC", "30000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	n, err := sdnotify.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if n.Watchdog() != 30*time.Second {
		t.Errorf("the watchdog is %v", n.Watchdog())
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if v, ok := os.LookupEnv(name); ok {
			t.Errorf("%s=%s is still in the environment", name, v)
		}
	}
	if err := n.Send(sdnotify.Ready, sdnotify.Status("all\nis well"),
		sdnotify.ExtendTimeout(1500*time.Millisecond),
		sdnotify.Monotonic(time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	size, err := socket.Read(b)
	const want = "READY=1\nSTATUS=all is well\nEXTEND_TIMEOUT_USEC=1500000\nMONOTONIC_USEC=1000000"
	if err != nil || string(b[:size]) != want {
		t.Errorf("%q (%v), want %q", b[:size], err, want)
	}
}

func TestWithoutASocketNothingIsSaid(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "30000000")
	n, err := sdnotify.FromEnvironment()
	if n != nil || err != nil {
		t.Fatalf("%v, %v", n, err)
	}
	if err := n.Send(sdnotify.Ready); err != nil || n.Watchdog() != 0 {
		t.Errorf("nobody says %v, watchdog %v", err, n.Watchdog())
	}
	n.Close()
}

func TestAWatchdogOfAnotherProcessIsNotOurs(t *testing.T) {
	manager(t)
	t.Setenv("WATCHDOG_USEC", "30000000")
	t.Setenv("WATCHDOG_PID", "1")
	n, err := sdnotify.FromEnvironment()
	if err != nil || n.Watchdog() != 0 {
		t.Errorf("%v, %v", err, n.Watchdog())
	}
	n.Close()
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	for name, env := range map[string][2]string{
		"a socket of another kind": {"vsock:2:1234", ""},
		"no such socket":           {"/none/such", ""},
		"no number":                {"", "soon"},
		"no time":                  {"", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			manager(t)
			if env[0] != "" {
				t.Setenv("NOTIFY_SOCKET", env[0])
			}
			t.Setenv("WATCHDOG_USEC", env[1])
			if n, err := sdnotify.FromEnvironment(); err == nil {
				t.Errorf("it is taken: %v", n)
			}
		})
	}
}

// A manager that takes nothing more delays its service by no more than a second for each message.
func TestAManagerThatDoesNotReadIsWaitedForBriefly(t *testing.T) {
	manager(t)
	n, err := sdnotify.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for range 100_000 { // its queue is bounded by net.unix.max_dgram_qlen
		if err := n.Send(sdnotify.Watchdog); err != nil {
			return
		}
	}
	t.Error("a hundred thousand messages found room")
}
