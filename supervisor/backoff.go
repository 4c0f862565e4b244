package supervisor

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff says how long a child waits for its next restart. NextBackOff is the wait before the
// restart that is due now. If it is negative, the supervisor gives the child up and escalates.
// Reset is called at first, and after a healthy run. The policies of cenkalti/backoff fit. Its
// NewExponentialBackOff gives up after 15 minutes unless its MaxElapsedTime is 0.
type Backoff = backoff.BackOff

// Constant waits equally long before each restart.
func Constant(d time.Duration) func() Backoff {
	return func() Backoff { return backoff.NewConstantBackOff(d) }
}

// Exponential waits for first, then twice as long each time, up to longest. Each wait is drawn from
// half to one and a half times that. It never gives up.
func Exponential(first, longest time.Duration) func() Backoff {
	return func() Backoff {
		return &backoff.ExponentialBackOff{
			InitialInterval: first, MaxInterval: longest, Multiplier: 2, RandomizationFactor: 0.5,
			Stop: backoff.Stop, Clock: backoff.SystemClock,
		}
	}
}

var defaultBackoff = Exponential(100*time.Millisecond, 10*time.Second)

// delay asks the child's policy how long to wait after a run of that length. It is negative when
// the policy gives up.
func (c *child) delay(ran time.Duration) time.Duration {
	p := &c.faults().policy
	switch {
	case *p == nil:
		if c.def.Backoff != nil {
			*p = c.def.Backoff()
		}
		if *p == nil {
			*p = defaultBackoff()
		}
		(*p).Reset()
	case ran >= c.def.healthyAfter():
		(*p).Reset()
	}
	return (*p).NextBackOff()
}
