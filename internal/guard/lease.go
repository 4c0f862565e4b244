//go:build unix

package guard

import "time"

// minMargin is what it takes to stop a group of processes on a busy machine.
const minMargin = 200 * time.Millisecond

// lease is a deadline on two clocks that both processes read: one that no one can set and that
// also counts while the host is suspended, and the wall clock. Absolute times, not what remains: a
// message may lie in the pipe while its sender is frozen, and what remained then is not what
// remains now.
type lease struct {
	Boot   int64 // ns, by bootNanos
	Wall   int64 // ns since 1970
	Margin time.Duration
	Epoch  uint64 // one for each session: a lease of another epoch is none for what runs under this
	Gone   bool   // given up: no work may start or go on, what is being stopped keeps its deadline
}

// makeLease reads the boot clock before it looks at until, so that a process frozen between the
// two promises less time than there is, never more.
func makeLease(until time.Time, margin time.Duration) lease {
	boot := bootNanos()
	return lease{
		Boot:   boot + int64(time.Until(until)),
		Wall:   until.UnixNano(),
		Margin: max(margin, minMargin),
	}
}

// killLead is how long before the end SIGKILL is sent: enough for the kernel to carry it out, and
// what this host's clock may be slow by. So it is a share of the margin however long that is.
func (l lease) killLead() time.Duration { return l.Margin / 4 }

// late tells whether work that should be gone by now is not.
func (l lease) late() bool { return l.Boot != 0 && l.untilKill() < -l.killLead()/4 }

// left is the time until the lease ends, by the clock that says less. Not defined for no lease.
func (l lease) left() time.Duration {
	return time.Duration(min(l.Boot-bootNanos(), l.Wall-time.Now().UnixNano()))
}

// held reports whether work may run.
func (l lease) held() bool { return l.Boot != 0 && !l.Gone && l.left() > l.Margin }

// untilStop is the time until work must begin to stop.
func (l lease) untilStop() time.Duration { return l.left() - l.Margin }

// untilKill is the time until nothing may be left to chance.
func (l lease) untilKill() time.Duration { return l.left() - l.killLead() }

// leaseState is what the clocks say of a lease.
type leaseState struct {
	held                 bool
	untilStop, untilKill time.Duration
}

// leaseStates reads the clocks once for each lease that it is asked for: a thousand commands share
// one, and the clocks cost more than all else of a look at them.
func leaseStates() func(*lease) leaseState {
	known := map[*lease]leaseState{}
	return func(l *lease) leaseState {
		s, ok := known[l]
		if !ok {
			s = leaseState{l.held(), l.untilStop(), l.untilKill()}
			known[l] = s
		}
		return s
	}
}
