package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/sdnotify"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
	"golang.org/x/sys/unix"
)

// readyWithin is how long after its start a member that waits for Consul, or for a predecessor, is
// called ready all the same: Consul may be started after it, and the boot of a host must not wait.
const readyWithin = 10 * time.Second

// condition is what systemd is told of, at one moment.
type condition struct {
	id         string
	session    facts.Session
	membership facts.Membership
	leadership facts.Leadership
	running    int    // items
	stuck      string // the actor that hangs; empty: none does
}

// registered tells whether the member takes part.
func (c condition) registered(now time.Time) bool {
	return c.session.Holds(now, 0) && c.membership.In(c.session.ID)
}

// alive tells whether the watchdog is fed: while the lease holds, and while the member honestly
// waits for Consul or a predecessor. No actor hangs then. With the lease over and an actor that
// hangs, nothing but a restart helps. While the lease holds, no hanging actor counts: the
// session-renewer lets the lease end because of it, and the work is told to stop before.
func (c condition) alive(now time.Time) bool {
	return c.session.Holds(now, 0) || c.stuck == ""
}

// line is the condition in words.
func (c condition) line(now time.Time) string {
	switch {
	case !c.session.Holds(now, 0) && c.stuck != "":
		return fmt.Sprintf("%s hangs: its lease is over, and no item runs", c.stuck)
	case c.session.ID == "":
		return "waits for Consul: no item runs"
	case !c.session.Holds(now, 0):
		return "waits for Consul: its lease is over, and no item runs"
	case !c.membership.In(c.session.ID):
		return "waits for its record in Consul: no item runs"
	}
	leads := ""
	switch {
	case c.leadership.Leader == c.id:
		leads = "; leads"
	case c.leadership.Leader != "":
		leads = "; " + c.leadership.Leader + " leads"
	}
	return count(c.running, "item") + " run" + map[bool]string{true: "s"}[c.running == 1] + leads
}

// notifier tells systemd how a member does.
type notifier struct {
	to        *sdnotify.Notifier
	log       *slog.Logger
	condition func() condition
	changed   messages.Reader[facts.Membership] // something to look at sooner
	stop      time.Duration                     // the longest that a clean stop takes

	begin  time.Time
	ready  bool
	failed atomic.Bool // the last message was not taken
}

// conditionOf reads a member's condition.
func conditionOf(c *actors.Coordinator) condition {
	stuck, _ := c.Hanging(time.Now())
	return condition{id: c.ID(), session: c.Session().Get(), membership: c.Membership().Get(),
		leadership: c.Leadership().Get(), running: c.OwnItems().States[operator.ItemRunning],
		stuck: stuck}
}

// openNotifier takes systemd's variables out of the environment. A systemd that cannot be told is
// no reason not to run.
func openNotifier(log *slog.Logger) *sdnotify.Notifier {
	to, err := sdnotify.FromEnvironment()
	if err != nil {
		log.Warn("no-notify", "err", err, "then", "systemd does not hear of this member")
	}
	return to
}

// child is the actor. Put it last, so that it is the first to stop: it tells of the stop.
func (n *notifier) child() supervisor.Child {
	return supervisor.Child{Name: "systemd-notifier", Run: func(ctx context.Context) error {
		if n.begin.IsZero() { // not of a later incarnation
			n.begin = time.Now()
		}
		defer n.stopping(ctx)
		every := time.Second
		if w := n.to.Watchdog(); w > 0 {
			every = min(every, w/4)
		}
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for changed := n.changed.Subscribe(); ; {
			n.look(time.Now())
			select {
			case <-changed.Changed():
				changed.Take()
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
	}}
}

// look sends how the member does at now, in one message.
func (n *notifier) look(now time.Time) {
	c := n.condition()
	lines := []string{sdnotify.Status(c.line(now))}
	if c.alive(now) {
		lines = append(lines, sdnotify.Watchdog)
	}
	due := !n.ready && (c.registered(now) || now.Sub(n.begin) >= readyWithin)
	if due {
		lines = append(lines, sdnotify.Ready)
	}
	if n.send(lines...) && due {
		n.ready = true
	}
}

// stopping tells of a clean stop, which may take longer than the unit allows.
func (n *notifier) stopping(ctx context.Context) {
	if ctx.Err() == nil {
		return // a crash
	}
	n.send(sdnotify.Stopping, sdnotify.Status("stops: hands its items over"),
		sdnotify.ExtendTimeout(n.stop))
}

// reloading tells that settings are being read anew; done tells the end.
func (n *notifier) reloading() (done func()) {
	n.send(sdnotify.Reloading, sdnotify.Monotonic(monotonic()))
	return func() { n.send(sdnotify.Ready) }
}

func (n *notifier) send(lines ...string) bool {
	err := n.to.Send(lines...)
	if failed := n.failed.Swap(err != nil); err != nil && !failed {
		n.log.Warn("no-notify", "err", err, "then", "trying again")
	}
	return err == nil
}

// monotonic is the time of CLOCK_MONOTONIC, by which systemd orders reloads.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
