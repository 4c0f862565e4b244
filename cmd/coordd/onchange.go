package main

import (
	"errors"

	"github.com/coordd/coordd/actors"
)

// onChange is the value of --on-change. A command is not sent a payload: it has read its standard
// input by then.
type onChange actors.OnChange

func (c *onChange) String() string {
	if *c == onChange(actors.RestartOnChange) {
		return "restart"
	}
	return "keep"
}

func (c *onChange) Type() string { return "keep" }

func (c *onChange) Set(text string) error {
	switch text {
	case "keep":
		*c = onChange(actors.KeepOnChange)
	case "restart":
		*c = onChange(actors.RestartOnChange)
	default:
		return errors.New("give keep or restart")
	}
	return nil
}
