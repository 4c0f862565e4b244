package supervisor

import (
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff says how long a child waits for its next restart. The policies of
// github.com/cenkalti/backoff are of this kind. Mind that its NewExponentialBackOff gives up after
// 15 minutes unless told otherwise.
type Backoff interface {
	// NextBackOff is the wait before the restart that is due now. If it is negative, the child is
	// given up: its supervisor escalates.
	NextBackOff() time.Duration
	// Reset is called at first, and after a healthy run.
	Reset()
}

// own are policies that are known not to panic.
type own struct{ Backoff }

// Constant waits equally long before each restart.
func Constant(d time.Duration) func() Backoff {
	return func() Backoff { return own{backoff.NewConstantBackOff(d)} }
}

// Exponential waits for first, then twice as long each time, up to longest; each wait is drawn from
// half to one and a half times that. It never gives up.
func Exponential(first, longest time.Duration) func() Backoff {
	return func() Backoff {
		return own{&backoff.ExponentialBackOff{
			InitialInterval: first, MaxInterval: longest, Multiplier: 2, RandomizationFactor: 0.5,
			Stop: backoff.Stop, Clock: backoff.SystemClock,
		}}
	}
}

var defaultBackoff = Exponential(100*time.Millisecond, 10*time.Second)

func (c *Child) newBackoff() Backoff {
	if c.Backoff != nil {
		if b := c.Backoff(); b != nil {
			return b
		}
	}
	return defaultBackoff()
}

var errGaveUp = errors.New("its backoff policy gave up")

var errLeft = errors.New("its backoff policy ended the goroutine that asked it")

// delay asks the child's policy how long to wait after a run of the given length. A policy of the
// user's is asked from the loop, which waits for it: a panic there, or runtime.Goexit, must not
// take the supervisor down and leave the siblings without one.
func (c *child) delay(ran time.Duration) (d time.Duration, err error) {
	if _, ok := c.extra().policy.(own); ok || c.def.Backoff == nil {
		return c.askPolicy(ran)
	}
	return c.askStranger(ran)
}

// askStranger asks in a goroutine of its own.
func (c *child) askStranger(ran time.Duration) (d time.Duration, err error) {
	err = errLeft
	over := make(chan struct{})
	go func() {
		defer close(over)
		d, err = c.askPolicy(ran)
	}()
	<-over
	return d, err
}

func (c *child) askPolicy(ran time.Duration) (d time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("its backoff policy panicked: %s", textOf(v))
		}
	}()
	own := c.mine()
	if own.policy == nil {
		own.policy = c.def.newBackoff()
		own.policy.Reset()
	} else if ran >= c.def.healthyAfter() {
		own.policy.Reset()
	}
	if d = own.policy.NextBackOff(); d < 0 {
		return 0, errGaveUp
	}
	return d, nil
}
