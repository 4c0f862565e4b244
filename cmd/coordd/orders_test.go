package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachFlag calls f with the flags of each command, those for all commands once.
func eachFlag(f func(c *cobra.Command, flag *pflag.Flag)) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(flag *pflag.Flag) { f(c, flag) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

// parsed is the same command of another tree, given nothing.
func parsed(t *testing.T, root, c *cobra.Command) *cobra.Command {
	t.Helper()
	cmd, _, err := root.Find(strings.Fields(c.CommandPath())[1:])
	must(t, err)
	must(t, cmd.ParseFlags(nil))
	return cmd
}

// valueFor is a value that a flag does not have yet.
func valueFor(f *pflag.Flag) string {
	for _, v := range []string{"true", "7", "7s", "json", "restart", "none"} {
		if was := f.DefValue; v != was && f.Value.Set(v) == nil {
			return v
		}
	}
	return "x"
}

// What the help says of every flag: it can be a variable or in a settings file, unless it is an
// order, and then it can be neither.
func TestEveryFlagIsASettingUnlessItIsAnOrder(t *testing.T) {
	seen := 0
	eachFlag(func(c *cobra.Command, f *pflag.Flag) {
		if f.Name == "help" || f.Name == "version" {
			return
		}
		seen++
		name, value := c.CommandPath()+" --"+f.Name, valueFor(f)
		_, order := f.Annotations[commandLineOnly]
		a := &app{surroundings: surroundings{env: func(name string) (string, bool) {
			return value, name == envName(f.Name)
		}}}
		cmd := parsed(t, a.root(), c)
		err := a.fromEnvironment(cmd)
		if got := len(a.taken) > 0 || err != nil && !strings.Contains(err.Error(), "an order"); got ==
			order {
			t.Errorf("%s: an order: %v, and the variable is taken: %v (%v)", name, order, got, err)
		}
		if f.Name == "config" {
			return
		}
		found, err := parseSettings("f", fmt.Appendf(nil, "%s: %q", f.Name, value),
			flagsOf(cmd.Root()))
		if err == nil {
			cmd = parsed(t, (&app{}).root(), c)
			var set taken
			set, err = setFrom("f", found, cmd.Flags())
			if got := len(set) > 0 || err != nil; got == order {
				t.Errorf("%s: an order: %v, and the file is taken: %v (%v)", name, order, got, err)
			}
		} else if !order || !strings.Contains(err.Error(), "is an order") {
			t.Errorf("%s: an order: %v, and of the file it is said: %v", name, order, err)
		}
		if !order && slices.Contains(forCommands, envName(f.Name)) {
			t.Errorf("%s is a setting, and its variable is for commands", name)
		}
	})
	if seen < 100 {
		t.Errorf("%d flags", seen)
	}
}

// A name may be an order of one command and a setting of another: --wait of drain and of config.
func TestASettingOfOneCommandIsNoOrderForAnother(t *testing.T) {
	for value, refused := range map[string]bool{"7s": false, "true": true} {
		a := &app{surroundings: surroundings{env: func(name string) (string, bool) {
			return value, name == "COORDD_WAIT"
		}}}
		drain, _, err := a.root().Find([]string{"drain"})
		must(t, err)
		must(t, drain.ParseFlags(nil))
		if err := a.fromEnvironment(drain); (err != nil) != refused || len(a.taken) > 0 {
			t.Errorf("COORDD_WAIT=%s coordd drain: %v, %v", value, err, a.taken)
		}
	}
}
