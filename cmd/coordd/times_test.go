package main

import (
	"bytes"
	"io"
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

// It is looked at before anything is done, wherever the time comes from.
func TestATimeThatIsTooLongIsRefusedByTheCommand(t *testing.T) {
	for name, s := range map[string]surroundings{
		"a flag":     {args: []string{"drain", "n1", "--timeout", "8761h"}},
		"a variable": {args: []string{"run", "--id", "a"}, env: env("COORDD_GRACE", "8761h")},
	} {
		var said bytes.Buffer
		if s.env == nil {
			s.env = env("", "")
		}
		s.in, s.out, s.err = strings.NewReader(""), io.Discard, &said
		if code := run(t.Context(), s); code != 2 || !strings.Contains(said.String(), "at most 8760h") {
			t.Errorf("%s: exit code %d: %s", name, code, &said)
		}
	}
}

// env is an environment of one variable.
func env(name, value string) func(string) (string, bool) {
	return func(asked string) (string, bool) { return value, asked == name && name != "" }
}
