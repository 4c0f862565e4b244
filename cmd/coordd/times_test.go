package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Whatever is reckoned with a time, a sum of two must not begin at the other end.
func TestNoFlagTakesATimeThatIsTooLongToReckonWith(t *testing.T) {
	seen := 0
	eachFlag(func(c *cobra.Command, f *pflag.Flag) {
		if f.Value.Type() != "duration" {
			return
		}
		seen++
		for value, refused := range map[string]bool{
			"8760h": false, "8760h0m1s": true, time.Duration(math.MaxInt64).String(): true} {
			root := (&app{}).root()
			cmd := parsed(t, root, c)
			must(t, cmd.ParseFlags([]string{"--" + f.Name, value}))
			err := checkTimes(cmd.Flags())
			if refused != (err != nil && strings.Contains(err.Error(), "--"+f.Name+" ")) {
				t.Errorf("%s --%s %s: %v", c.CommandPath(), f.Name, value, err)
			}
		}
	})
	if seen < 20 {
		t.Errorf("only %d flags take a time", seen)
	}
}
