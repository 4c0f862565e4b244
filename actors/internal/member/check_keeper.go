package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// CheckKeeper keeps this member registered at Consul's agent, as an instance of the service with a
// check that it reports to. What it loses is a faster detection and nothing else: a session ends by
// its TTL where there is no check.
type CheckKeeper struct {
	*actor.Base
	out      *messages.State[messages.Check]
	session  messages.Reader[messages.Session]
	holdings messages.Reader[messages.Holdings]

	instance store.Instance
	there    bool   // it has been registered
	bound    string // the session that is bound to it
	last     string // the last one that was
	strays   tally  // reports that went to an agent without the check
	losses   tally  // of bound sessions
}

// NewCheckKeeper wires the actor.
func NewCheckKeeper(b *actor.Base, out *messages.State[messages.Check],
	session messages.Reader[messages.Session],
	holdings messages.Reader[messages.Holdings]) *CheckKeeper {
	return &CheckKeeper{Base: b, out: out, session: session, holdings: holdings}
}

// checkAgain is how soon an agent that takes no check is asked again: sessions that are opened
// later can be bound to it.
const checkAgain = time.Minute

// mostStrays is how many reports may go to an agent that does not know the check: it was started
// anew, or, when that goes on, there are several.
const mostStrays = 3

// mostLosses is how many sessions may end while this process lives and reports: the way to the
// agent is too slow for the check, or the machine too busy.
const mostLosses = 2

// tally counts what comes again and again.
type tally struct {
	n    int
	last time.Time
}

// tallyFor is how long nothing may come before the count begins anew.
const tallyFor = 10 * time.Minute

// more counts one more, and returns how many there are.
func (t *tally) more() int {
	if time.Since(t.last) > tallyFor {
		t.n = 0
	}
	t.n, t.last = t.n+1, time.Now()
	return t.n
}

// ReportEvery is the time between two reports to a check of that TTL: so a silence of five sixths of
// the TTL does not end the check.
func ReportEvery(ttl time.Duration) time.Duration { return ttl / 12 }

// Run is the actor: see [supervisor.Child].
func (a *CheckKeeper) Run(ctx context.Context) error {
	defer a.deregister(ctx)
	a.instance = a.newInstance()
	reports := store.NewOverlap[report]()
	defer reports.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ladder := store.NewLadder()
	var timer actor.Timer
	defer timer.Stop()
	registered, next := a.there, time.Now()
	session := a.session.Subscribe()
	for {
		a.Idle(ctx)
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-session.Changed():
			if a.follow(session.Take()) {
				registered, next = false, time.Now().Add(checkAgain)
			}
			if a.bound != "" {
				next = actor.Earliest(next, time.Now().Add(ReportEvery(a.CheckTTL)))
			}
			continue
		case r := <-reports.Results:
			if err = r.err; err == nil {
				ladder.Reset()
				a.Store.Succeeded("check")
				c := a.out.Get()
				c.Reported = r.sent
				a.out.Set(c)
				continue
			} else if !registered {
				continue // of before
			}
		case <-timer.At(next):
			if err := a.Busy(ctx); err != nil {
				return err
			}
			next = time.Now().Add(ReportEvery(a.CheckTTL))
			if who, _ := a.Stuck(time.Now()); who != "" {
				continue // the session-renewer says so
			}
			if registered {
				if reports.Pending() < mostReports {
					reports.Go(ctx, a.report)
				}
				continue
			}
			if err = a.register(ctx); err == nil {
				ladder.Reset()
				a.Store.Succeeded("check")
				registered, a.there = true, true
				// The agent keeps on its disk what a report has said, and nothing of the
				// registration: where it is killed and comes back before the first one, the check
				// is critical.
				next = time.Now()
				if a.strays.n <= mostStrays || time.Since(a.strays.last) > tallyFor {
					c := messages.Check{Known: true, ID: a.instance.CheckID(),
						Reported: a.out.Get().Reported}
					if c.Reported.IsZero() { // later the check keeps the state that it has
						c.Reported = time.Now()
					}
					a.out.Set(c)
				}
				supervisor.Ready(ctx)
				continue
			}
		}
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrNotFound):
			registered, wait = false, a.CheckTTL/40
			a.astray()
		case registered, a.bound != "", errors.Is(err, store.ErrUnreachable):
			// The session that is bound to the check goes on, and with it the reports.
			wait = min(ladder.NextBackOff(), a.patience())
			a.Store.Failed("check", err, wait)
		default:
			a.without(err.Error())
			wait = checkAgain
		}
		next = time.Now().Add(wait)
	}
}

// patience is how soon at the latest what has failed is followed by the next try: at once while the
// check still passes; soon as long as a session is bound to it, for an agent that comes back tells
// Consul of what it knows, or while there is no session, for the next one is to be bound.
func (a *CheckKeeper) patience() time.Duration {
	switch s := a.session.Get(); {
	case s.ID != "" && s.Check == "":
		return time.Minute // the ladder's steps are shorter
	case time.Since(a.out.Get().Reported) < a.CheckTTL:
		return a.CheckTTL / 40
	}
	return ReportEvery(a.CheckTTL)
}

// errSlow: the agent answers, but too late for the check.
var errSlow = errors.New("the agent is too slow")

// mostSlow is how often an agent may be too slow, one time after another: it may just have begun.
const mostSlow = 3

// register registers this member, or anew.
func (a *CheckKeeper) register(ctx context.Context) error {
	for try := 1; ; try++ {
		sent := time.Now()
		err := a.Store.RegisterInstance(ctx, a.instance)
		took := time.Since(sent)
		if err != nil || took <= a.CheckTTL/3 {
			return err
		}
		if try == mostSlow {
			return fmt.Errorf("%w: it took %v to register this member", errSlow,
				took.Round(time.Millisecond))
		}
	}
}

// mostReports is how many reports may be under way: the next one does not wait for them, for a way
// that takes its time delivers them all the same, and one that has lost a packet never will.
const mostReports = 7

// report is what came of one.
type report struct {
	sent time.Time
	err  error
}

// report says that this member is there.
func (a *CheckKeeper) report(ctx context.Context) report {
	call, cancel := context.WithTimeout(ctx, a.CheckTTL/2)
	defer cancel()
	sent := time.Now()
	return report{sent, a.Store.Contain("report check", func() error {
		return a.Store.ReportInstance(call, a.instance, a.says())
	})}
}

// follow takes in what becomes of the session, and tells whether too many of them have ended with
// the check.
func (a *CheckKeeper) follow(s messages.Session) bool {
	a.bound = ""
	if s.Check != "" {
		a.bound = s.ID
	}
	if s.ID == "" || s.ID == a.last {
		return false // a clean stop ends it as well
	}
	was := a.last
	if a.last = a.bound; was == "" {
		return false
	}
	if a.losses.more() < mostLosses {
		return false
	}
	a.losses = tally{}
	a.without(fmt.Sprintf("%d sessions have ended although this process lives", mostLosses))
	return true
}

// astray takes in that an agent answered that does not know the check.
func (a *CheckKeeper) astray() {
	if a.strays.more() > mostStrays {
		a.without("several agents answer at the address of Consul, and only one of them has the " +
			"check: give the address of this host's agent")
	}
}

// without says that the next session will be bound to no check.
func (a *CheckKeeper) without(why string) {
	if c := a.out.Get(); !c.Known || c.ID != "" {
		a.Log.Warn("no-check", "why", why, "then", fmt.Sprintf(
			"a member that dies is noticed by its session's ttl alone, after up to %v in place "+
				"of %v", 2*a.TTL, a.CheckTTL))
	}
	a.out.Set(messages.Check{Known: true, Reported: a.out.Get().Reported})
}

// says is what is shown beside the check.
func (a *CheckKeeper) says() string {
	s, h := a.session.Get(), a.holdings.Get()
	return fmt.Sprintf("%d items run; the lease has %v left", h.Running(),
		max(0, s.Lease.Left(time.Now())).Round(time.Second))
}

// newInstance is this process as the agent will show it. Its id is that of no other process, a
// successor of the same member id included: so nobody reports for another one.
func (a *CheckKeeper) newInstance() store.Instance {
	i := store.Instance{
		ID: plain(a.Service + "-" + a.ID + "-" + a.Process.Instance), Service: a.Service,
		CheckTTL: a.CheckTTL,
		Meta:     map[string]string{"coordd-member": a.ID},
	}
	if a.Version != "" {
		i.Meta["version"] = a.Version
	}
	if a.Zone != "" {
		i.Meta["zone"] = a.Zone
	}
	if host, port, err := net.SplitHostPort(a.Address); err == nil {
		i.Address = host
		i.Port, _ = strconv.Atoi(port)
	}
	return i
}

// plain keeps of a text what needs no escape in a URL.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, text)
}

// deregister is the last step of a clean stop.
func (a *CheckKeeper) deregister(ctx context.Context) {
	if ctx.Err() == nil || !a.there {
		return // a crash: the next incarnation goes on
	}
	call, cancel := actor.Cleanup(ctx, actor.GoodbyeTimeout)
	defer cancel()
	if err := a.Store.DeregisterInstance(call, a.instance); err != nil {
		a.Log.Warn("instance-not-deregistered", "instance", a.instance.ID, "err", err, "then",
			"Consul takes it away a minute after its check has turned critical")
	}
	a.out.Set(messages.Check{})
}
