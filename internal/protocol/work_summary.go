package protocol

import (
	"strings"
	"time"
	"unicode"

	"github.com/coordd/coordd/internal/store"
)

// The states of an item's work at its member, in a [WorkSummary].
const (
	WorkRunning  = "running"
	WorkStarting = "starting" // assigned, and not begun yet
	// WorkLooping: it has ended by itself several times in a row, and is started again after
	// growing pauses.
	WorkLooping  = "crash-looping"
	WorkFailing  = "failing-check" // it runs, and its check fails
	WorkStopping = "stopping"      // it was told to stop, or has stopped and is not released yet
	// WorkStuck: it was told to stop, and has not ended within its stop timeout.
	WorkStuck = "stuck"
	// WorkWaiting: a predecessor of the same id may still work on it.
	WorkWaiting = "waiting"
)

// Bounds of a [WorkSummary]: how many items it names at the most, and how long an end's text is, in
// bytes. Its size is bounded by MaxSummaryBytes as well.
const (
	MaxNamed        = 100
	MaxExitBytes    = 200
	MaxSummaryBytes = 32 << 10
)

// WorkSummary is the value of states/<m>: what the work of a member's items does. It is for people.
// The leader reads it when the member's ack says that work fails too often. It counts while its
// session is the one that locks the member's record; the times in it are by the member's clock.
type WorkSummary struct {
	Session string    `json:"sid"`
	Seq     uint64    `json:"n"` // makes every value a new one
	At      time.Time `json:"at"`
	// Upto is the highest CreateIndex of the assignments that it takes into account: an item that
	// was granted later is not in it.
	Upto uint64 `json:"upto,omitempty"`
	// ClearAt is when inherited items may be started; zero: now.
	ClearAt time.Time `json:"clear_at,omitzero"`
	// Counts has the items by their states: all of them, named or not.
	Counts map[string]int `json:"counts,omitempty"`
	// Items names those that do not simply run, at most MaxNamed.
	Items []WorkReport `json:"items,omitempty"`
	// Ended is the last time that the work ended for want of a lease.
	Ended LeaseEnd `json:"ended,omitzero"`
}

// LeaseEnd is the end of all of a member's work for want of a lease.
type LeaseEnd struct {
	Why string    `json:"why,omitempty"` // lease-over, session-lost or was-suspended
	At  time.Time `json:"at,omitzero"`
	// Upto is the highest grant that it ended: items that were granted later are not meant.
	Upto uint64 `json:"upto,omitempty"`
}

// WorkReport is one item of a [WorkSummary].
type WorkReport struct {
	ID    string    `json:"id"`
	State string    `json:"s"`
	Since time.Time `json:"since,omitzero"` // of this state
	Grant uint64    `json:"grant,omitempty"`
	// Restarts is how often the work has ended by itself since it was started here.
	Restarts int       `json:"restarts,omitempty"`
	Exit     string    `json:"exit,omitempty"` // what its last such end said
	ExitAt   time.Time `json:"exit_at,omitzero"`
	Next     time.Time `json:"next,omitzero"`   // its next start, while it pauses
	Check    string    `json:"check,omitempty"` // why its check fails
	// Read is the ModifyIndex of the payload that the work has, if the grant is lower.
	Read uint64 `json:"read,omitempty"`
	// Over: it has ended by itself more often than its member lets it, and the leader is to take
	// the item away. Again is the order to restart that it was started after: see
	// [Assignment.Restart].
	Over  bool   `json:"over,omitempty"`
	Again uint64 `json:"again,omitempty"`
}

// Ends tells whether the work was told to stop.
func (r WorkReport) Ends() bool { return r.State == WorkStopping || r.State == WorkStuck }

// States returns the prefix of the members' summaries. Nobody watches it.
func (k Keys) States() string { return k.root + "states/" }

// State returns the key of the summary of member m.
func (k Keys) State(m string) string { return k.States() + m }

// Encode returns the JSON form.
func (s WorkSummary) Encode() []byte { return encode(s) }

// ParseWorkSummary reads a summary.
func ParseWorkSummary(value []byte) (WorkSummary, error) {
	var s WorkSummary
	if err := decode("work summary", value, &s); err != nil {
		return WorkSummary{}, err
	}
	if err := couldBeSession("work summary", s.Session); err != nil {
		return WorkSummary{}, err
	}
	if len(s.Items) > 10*MaxNamed || len(s.Counts) > 20 {
		return WorkSummary{}, store.Invalid("work summary", "it names %d items and %d states",
			len(s.Items), len(s.Counts))
	}
	for state, n := range s.Counts {
		if n < 0 || n > 1<<30 {
			return WorkSummary{}, store.Invalid("work summary", "it counts %d items as %q", n,
				store.ShortenPart(state))
		}
	}
	if !isLine(s.Ended.Why) {
		return WorkSummary{}, store.Invalid("work summary", "the end of all work is no line of text")
	}
	for _, item := range s.Items {
		switch {
		case CheckID("item id", item.ID) != nil:
			return WorkSummary{}, store.Invalid("work summary",
				"it names %q, which is no item's id", store.ShortenPart(item.ID))
		case !isLine(item.Exit), !isLine(item.Check):
			return WorkSummary{}, store.Invalid("work summary", "the end of %q is no line of text",
				store.ShortenPart(item.ID))
		case item.Restarts < 0:
			return WorkSummary{}, store.Invalid("work summary", "%q was restarted %d times",
				store.ShortenPart(item.ID), item.Restarts)
		}
	}
	return s, nil
}

// isLine tells whether a text is one line at the most, and not much longer than this version writes
// one.
func isLine(text string) bool {
	return len(text) <= 2*MaxExitBytes && !strings.ContainsFunc(text, unicode.IsControl)
}

// Line makes a text one line that readers believe.
func Line(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), 2*MaxExitBytes)], "")
}

// MemberWork is a key under [Keys.States].
type MemberWork struct {
	Member string
	WorkSummary
}

// ReadWorkSummary reads a member's summary. A value that does not parse does not count: then it is
// not known what the member's work does.
func (k Keys) ReadWorkSummary(e store.Entry) (w MemberWork, ok bool, err error) {
	w.Member, w.WorkSummary, ok, err = readNamed(e, k.States(), "work summary", "member",
		ParseWorkSummary)
	return w, ok, err
}
