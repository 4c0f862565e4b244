package main

import (
	"errors"
	"time"

	"github.com/coordd/coordd/actors"
)

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
