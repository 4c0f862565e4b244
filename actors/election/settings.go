package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes bounds the names of elections and candidates.
const MaxNameBytes = 256

// DefaultDrainTimeout is the default of [Config].DrainTimeout.
const DefaultDrainTimeout = time.Minute

// Lead is a leader's duty. It runs while its candidate leads. s is the status of that moment, with
// the fencing token. When ctx ends, Lead must stop its work and return. The next candidate leads
// only after it has returned, so all its work must have ended by then. If Lead returns before ctx
// ends, the candidate resigns, and Lead's error becomes that of the Election. The same holds if the
// leadership had been lost before, but the loss was not known yet: a duty that has ended by itself
// is not started again.
type Lead func(ctx context.Context, s Status) error

// Config says how to take part in one election.
type Config struct {
	// Election is the name of the election: letters, digits and ._-~:@+, no slash. Required.
	Election string
	// Name of this candidate, for people and for hand-over. Required to nominate.
	Name string
	// Priority: among those who wait, the highest leads next. Default 0; may be negative. One
	// that comes during the lock-delay of a lost leader waits for all of it from then on, so it
	// leads after those who came before.
	Priority int
	// Preempt has this candidate ask a leader of lower priority to make way. Without it a higher
	// priority counts only when the leadership is free.
	Preempt bool
	// Address is published with the name and not used.
	Address string
	// Lead is the duty. If it is nil, the host does the work by the messages: on Draining it must
	// stop and then call Drained or Resign; on every role but Leading it must have stopped already.
	Lead Lead
	// Schedule: Lead is called once in each period for all candidates, and the candidacy goes on
	// when it returns. See ParseSchedule. The store records a run before it begins. So no period is
	// run twice, also where a run has failed or its leader dies. Lead returns an error if the
	// period's duty is not done, also when it was told to stop. Of several periods that could not
	// begin in time only the newest is run. All candidates need the same schedule.
	Schedule string
	// Now tells the wall time that Schedule goes by. Default time.Now.
	Now func() time.Time
	// Margin is how long before the end of the lease the leader steps down. Its duties have this
	// time to stop. Margin must be less than half of the lease that the store grants, or the
	// candidacy ends with ErrInvalid. Default: a tenth of the lease.
	Margin time.Duration
	// DrainTimeout is for a leader without a Lead function whose context has ended: if it does not
	// call Drained or Resign for so long, its duties are taken to have stopped, and the log warns.
	// A leader that is to make way for another one has no such bound. Default: 1 min.
	DrainTimeout time.Duration
	// Logger; default slog.Default().
	Logger *slog.Logger
}

// Validate reports all that is wrong with the settings at once, as ErrInvalid.
func (c Config) Validate() error {
	errs := []error{CheckName("Election", c.Election)}
	if c.Name != "" {
		errs = append(errs, checkText("Name", c.Name))
	}
	if c.Address != "" {
		errs = append(errs, checkText("Address", c.Address))
	}
	if c.Margin < 0 {
		errs = append(errs,
			invalid("Margin", "it is %v; give a positive duration, or 0 for a tenth of the lease",
				c.Margin))
	}
	if c.DrainTimeout < 0 {
		errs = append(errs, invalid("DrainTimeout",
			"it is %v; give a positive duration, or 0 for %v", c.DrainTimeout, DefaultDrainTimeout))
	}
	if c.Schedule != "" {
		_, err := ParseSchedule(c.Schedule)
		if errs = append(errs, err); c.Preempt {
			errs = append(errs, invalid("Preempt", "it would cut the runs of a Schedule short"))
		}
	}
	return errors.Join(errs...)
}

func invalid(what, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", what, ErrInvalid, fmt.Sprintf(format, args...))
}

// CheckName checks the name of an election. what begins the message of its ErrInvalid.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return invalid(what, "it is empty; give the election a name")
	case len(name) > MaxNameBytes:
		return invalid(what, "it has %d bytes; at most %d", len(name), MaxNameBytes)
	case name == "." || name == "..":
		return invalid(fmt.Sprintf("%s %q", what, name),
			"it is a path element of its own; use another name")
	}
	for _, r := range name {
		if r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
			!strings.ContainsRune("._-~:@+", r) {
			return invalid(fmt.Sprintf("%s %q", what, name),
				"it holds %q; use letters, digits and ._-~:@+", r)
		}
	}
	return nil
}

// checkText accepts text that can be shown in one line.
func checkText(what, text string) error {
	switch {
	case len(text) > MaxNameBytes:
		return invalid(what, "it has %d bytes; at most %d", len(text), MaxNameBytes)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return invalid(fmt.Sprintf("%s %q", what, text), "it holds what cannot be shown")
	case strings.TrimSpace(text) == "":
		return invalid(fmt.Sprintf("%s %q", what, text), "it is blank")
	}
	return nil
}
