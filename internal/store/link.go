package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// How often the same trouble may be logged.
const (
	unreachableEvery = 5 * time.Second
	worthMentioning  = time.Second // shorter outages get no second line when the first was left out
	deniedEvery      = 30 * time.Second
)

// link is what all callers together know about the connection to Consul. A
// dozen loops fail in the same outage; the log shall have one line.
type link struct {
	log       *slog.Logger
	addr      string
	fixedAddr bool
	stale     time.Duration // how long after its retry was due a caller counts as failing still

	down atomic.Bool // read without the lock by every success

	mu         sync.Mutex
	failing    map[string]time.Time // what -> when its next try is due
	since      time.Time
	tries      int
	lastLine   time.Time // of any outage: a link that flaps is no reason for more lines
	announced  bool      // this outage has had its line
	lastDenied time.Time
	lastBad    time.Time
	lastBack   time.Time
}

// Failed reports that what failed and will be tried again in retryIn. The first failure of an
// outage is logged at once, but never more than one line every 5 s, however often the link comes
// and goes; denied calls and requests that can never succeed have lines of their own, each at most
// every 30 s. Other kinds of error are none of the link's business. Safe for concurrent use.
func (l *link) Failed(what string, err error, retryIn time.Duration) {
	switch {
	case errors.Is(err, ErrDenied):
		l.hopeless("consul-denied", what, err, retryIn, &l.lastDenied)
	case errors.Is(err, errWentBack):
		l.hopeless("consul-restored", what, err, retryIn, &l.lastBack)
	case errors.Is(err, ErrUnreachable):
		l.failed(what, err, retryIn)
	case errors.Is(err, ErrInvalid):
		// One of ours that no key or value could make good, or one that a proxy does not let
		// through.
		l.hopeless("request-cannot-succeed", what, err, retryIn, &l.lastBad)
	}
}

// Succeeded reports that what worked. When it was failing, and nothing else
// is failing any more, the outage is over, which is logged once, with its
// length and the number of failed tries. Safe for concurrent use, and cheap
// while there is no outage.
func (l *link) Succeeded(what string) {
	if l.down.Load() {
		l.succeeded(what)
	}
}

func (l *link) failed(what string, err error, retryIn time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.down.Load() {
		l.failing, l.since, l.tries, l.announced = map[string]time.Time{}, now, 0, false
		l.down.Store(true)
	}
	l.tries++
	l.failing[what] = now.Add(retryIn)
	if !l.fixedAddr {
		if addr := addressOf(err); addr != "" {
			l.addr = addr
		}
	}
	if !l.lastLine.IsZero() && now.Sub(l.lastLine) < unreachableEvery {
		return
	}
	l.lastLine, l.announced = now, true
	l.log.Warn("consul-unreachable", "addr", l.addr, "what", what, "err", err, "tries", l.tries,
		"retry_in", seconds(retryIn))
}

func (l *link) succeeded(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down.Load() {
		return
	}
	delete(l.failing, what)
	// While others fail, a success says little: its answer may have been on the
	// way when they failed.
	if !l.overdue() {
		return
	}
	l.down.Store(false)
	if outage := time.Since(l.since); l.announced || outage >= worthMentioning {
		l.log.Info("reconnected-to-consul", "addr", l.addr, "tries", l.tries, "outage",
			seconds(outage))
	}
}

// overdue reports whether nobody is failing any more, but for those that have
// been silent for so long that they must have given up without a word.
func (l *link) overdue() bool {
	for _, due := range l.failing {
		if time.Since(due) < l.stale {
			return false
		}
	}
	return true
}

// hopeless logs an answer that no further try makes better, at most once in deniedEvery. It is an
// answer all the same: it shows that Consul can be reached.
func (l *link) hopeless(event, what string, err error, retryIn time.Duration, last *time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	delete(l.failing, what)
	if !last.IsZero() && now.Sub(*last) < deniedEvery {
		return
	}
	*last = now
	l.log.Error(event, "addr", l.addr, "what", what, "err", err, "retry_in", seconds(retryIn))
}

// seconds prints a duration as 0.05s, 0.2s or 12.3s.
func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
