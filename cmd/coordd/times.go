package main

import (
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/pflag"
)

// checkTimes refuses times that are too long to reckon with, of any flag: see [actors.MaxTime].
func checkTimes(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() != "duration" || err != nil {
			return
		}
		d, bad := time.ParseDuration(f.Value.String())
		if bad == nil && d > actors.MaxTime {
			err = usage("--%s %v: give at most %v", f.Name, d, actors.MaxTime)
		}
	})
	return err
}
