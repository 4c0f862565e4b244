package actor

import "time"

// Timer is a timer for a select loop: set it anew in each round.
type Timer struct{ t *time.Timer }

// At makes it go off at when; never, for the zero time.
func (t *Timer) At(when time.Time) <-chan time.Time {
	if t.t != nil {
		t.t.Stop()
	}
	if when.IsZero() {
		return nil
	}
	t.t = time.NewTimer(time.Until(when))
	return t.t.C
}

func (t *Timer) Stop() {
	if t.t != nil {
		t.t.Stop()
	}
}

// Earliest returns the earlier of two times; a zero time is no time.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
