// Package sdnotify tells systemd how a service does: the protocol of sd_notify(3).
//
// Guarantees:
//
//  1. Without NOTIFY_SOCKET nothing is said, and nothing fails.
//  2. A message that systemd does not take within a second is an error, and delays nobody longer.
//  3. The variables are taken out of the environment, so that no command that is started later
//     speaks for this process.
//
// It is not github.com/coreos/go-systemd: the protocol is one datagram, that module brings D-Bus
// along, and its writes have no deadline.
package sdnotify

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// The lines of a message that have no value of their own.
const (
	Ready     = "READY=1"
	Reloading = "RELOADING=1" // with Monotonic; Ready follows
	Stopping  = "STOPPING=1"
	Watchdog  = "WATCHDOG=1"
)

// Status is the line that `systemctl status` shows. A line break would begin another line of the
// message: it becomes a space.
func Status(text string) string {
	return "STATUS=" + strings.Join(strings.Fields(text), " ")
}

// ExtendTimeout asks for this much more time to start or to stop, from now on.
func ExtendTimeout(d time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10)
}

// Monotonic is a time of CLOCK_MONOTONIC, which systemd wants with Reloading.
func Monotonic(at time.Duration) string {
	return "MONOTONIC_USEC=" + strconv.FormatInt(at.Microseconds(), 10)
}

// sendLimit bounds a write: systemd may be busy, or frozen with its machine.
const sendLimit = time.Second

// variables are what systemd tells a service by.
var variables = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

// Notifier is the way to systemd. A nil one says nothing.
type Notifier struct {
	conn     *net.UnixConn
	watchdog time.Duration
}

// FromEnvironment returns the notifier that the environment names, nil if it names none, and takes
// the variables out of it. Call it before commands are started.
func FromEnvironment() (*Notifier, error) {
	socket := os.Getenv("NOTIFY_SOCKET")
	usec, pid := os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range variables {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("taking %s out of the environment: %w", name, err)
		}
	}
	if socket == "" {
		return nil, nil
	}
	if socket[0] != '/' && socket[0] != '@' {
		return nil, fmt.Errorf("NOTIFY_SOCKET is %q: a path, or @ and a name, is understood",
			socket)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	n := &Notifier{conn: conn}
	if usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return n, nil // there is no watchdog, or it is another process's
	}
	every, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || every <= 0 || every > int64(24*time.Hour/time.Microsecond) {
		conn.Close()
		return nil, fmt.Errorf("WATCHDOG_USEC is %q: microseconds are understood, up to a day",
			usec)
	}
	n.watchdog = time.Duration(every) * time.Microsecond
	return n, nil
}

// Watchdog returns how long systemd waits for [Watchdog] before it takes the service for hung; 0:
// it does not.
func (n *Notifier) Watchdog() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog
}

// Send sends one message of these lines.
func (n *Notifier) Send(lines ...string) error {
	if n == nil || len(lines) == 0 {
		return nil
	}
	if err := n.conn.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return fmt.Errorf("telling systemd: %w", err)
	}
	if _, err := n.conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("telling systemd: %w", err)
	}
	return nil
}

// Close closes the way to systemd.
func (n *Notifier) Close() {
	if n != nil {
		n.conn.Close()
	}
}
