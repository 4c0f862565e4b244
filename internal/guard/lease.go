//go:build unix

package guard

import "time"

// MinMargin is the time that it takes to stop a group of processes on a busy machine, and the least
// margin of a lease.
const MinMargin = 200 * time.Millisecond

// lease is a deadline on two clocks that both processes read. Nobody can set the boot clock, and it
// also counts while the host is suspended. The other one is the wall clock. The times are absolute,
// because a message may lie in the pipe while its sender is frozen.
type lease struct {
	Seq    uint64 // rises with each call of Guard.Lease; the highest counts
	Epoch  uint64 // one for each session: no lease prolongs what began under another epoch
	Boot   int64  // ns, by bootNanos
	Wall   int64  // ns since 1970
	Margin time.Duration
	Gone   bool // given up: no work may start or go on; what is being stopped keeps its deadline
}

// makeLease reads the boot clock before it looks at until, so that a process frozen between the
// two promises less time than there is, never more.
func makeLease(until time.Time, margin time.Duration) lease {
	boot := bootNanos()
	return lease{
		Boot:   boot + int64(time.Until(until)),
		Wall:   until.UnixNano(),
		Margin: max(margin, MinMargin),
	}
}

// killLead is how long before the end SIGKILL is sent. The kernel needs some of that time, and this
// host's clock may be slow by the rest: so it is a share of the margin.
func (l *lease) killLead() time.Duration { return l.Margin / 4 }

// left is the time until the lease ends, by the clock that says less. Not defined for no lease.
func (l *lease) left() time.Duration {
	return time.Duration(min(l.Boot-bootNanos(), l.Wall-time.Now().UnixNano()))
}

// held reports whether work may run.
func (l *lease) held() bool { return l.Boot != 0 && !l.Gone && l.left() > l.Margin }

// untilKill is the time until SIGKILL is sent.
func (l *lease) untilKill() time.Duration { return l.left() - l.killLead() }

// untilLate is the time until SIGKILL should have ended all work.
func (l *lease) untilLate() time.Duration { return l.untilKill() + l.killLead()/4 }

// lookEvery is how often the clocks are compared.
func (l *lease) lookEvery() time.Duration { return min(watchEvery, l.Margin/20) }

// leaseState is what the clocks say of a lease.
type leaseState struct {
	held      bool
	untilKill time.Duration
}

// leaseStates reads the clocks once for each lease that it is asked for: a thousand commands share
// one.
func leaseStates() func(*lease) leaseState {
	known := map[*lease]leaseState{}
	return func(l *lease) leaseState {
		s, ok := known[l]
		if !ok {
			s = leaseState{l.held(), l.untilKill()}
			known[l] = s
		}
		return s
	}
}
