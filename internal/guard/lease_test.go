//go:build unix

package guard

import (
	"testing"
	"time"
)

// In the package and not outside it: no test can set the clocks of a machine.

func TestTheClockThatSaysLessIsLeftCounts(t *testing.T) {
	const hour = int64(time.Hour)
	boot, wall := bootNanos(), time.Now().UnixNano()
	for name, tt := range map[string]struct {
		l    lease
		held bool
	}{
		"both":                   {lease{Boot: boot + hour, Wall: wall + hour}, true},
		"wall clock set forward": {lease{Boot: boot + hour, Wall: wall - 1}, false},
		"wall clock set back":    {lease{Boot: boot - 1, Wall: wall + hour}, false},
		"given up": {lease{Boot: boot + hour, Wall: wall + hour, Gone: true},
			false},
		"none yet": {lease{}, false},
		"within the margin": {lease{Boot: boot + hour, Wall: wall + hour,
			Margin: 2 * time.Hour}, false},
		"given up, as the first one": {lease{Gone: true}, false},
	} {
		if got := tt.l.held(); got != tt.held {
			t.Errorf("%s: held %v, want %v", name, got, tt.held)
		}
	}
}

func TestALeaseIsAnAbsoluteTime(t *testing.T) {
	until := time.Now().Add(time.Minute)
	l := makeLease(until, 0)
	if l.Wall != until.UnixNano() {
		t.Errorf("wall clock: %d, want %d", l.Wall, until.UnixNano())
	}
	if left, want := l.left(), time.Until(until); left > want+time.Millisecond ||
		left < want-time.Second {
		t.Errorf("left %v, want %v", left, want)
	}
	if l.Margin != MinMargin {
		t.Errorf("margin %v, want the least of %v", l.Margin, MinMargin)
	}
}

func TestKillComesAQuarterOfTheMarginBeforeTheEnd(t *testing.T) {
	for margin, want := range map[time.Duration]time.Duration{
		400 * time.Millisecond: 100 * time.Millisecond,
		2 * time.Second:        500 * time.Millisecond,
		// of a ttl of ten minutes, in which clocks drift apart by more than half a second
		time.Minute: 15 * time.Second,
	} {
		if got := (&lease{Margin: margin}).killLead(); got != want {
			t.Errorf("margin %v: %v, want %v", margin, got, want)
		}
	}
}
