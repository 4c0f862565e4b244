package main

import (
	"errors"
	"time"

	"github.com/coordd/coordd/actors"
)

// guarded is the check's TTL of a member whose guard speaks for it when it is killed: until it has,
// which is when the commands have ended, with the lease at the latest, and after the wait for a
// successor, the session must not end with the check. It may not be longer than Consul lets a
// session live by itself: then there is no check.
func (o *runFlags) guarded() time.Duration {
	const slack = 2 * time.Second // for the goodbye
	lease := o.lease
	if lease == 0 {
		lease = o.ttl
	}
	switch d := max(lease, o.restartWait+slack); {
	case o.checkTTL != 0, o.exec == "":
		return o.checkTTL
	case d > o.ttl:
		return actors.NoCheck
	default:
		return d
	}
}

// checkTTL is the flag --check-ttl: a time, or none.
type checkTTL time.Duration

func (c checkTTL) String() string {
	switch c {
	case 0:
		return ""
	case actors.NoCheck:
		return "none"
	}
	return time.Duration(c).String()
}

func (c *checkTTL) Set(text string) error {
	if text == "none" {
		*c = actors.NoCheck
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("give a time above 0s, such as 6s, or none")
	}
	*c = checkTTL(d)
	return nil
}

func (c *checkTTL) Type() string { return "time" }
