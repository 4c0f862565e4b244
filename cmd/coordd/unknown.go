package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// forCommands are the variables that coordd gives to commands. One that is run by such a command
// has them in its own environment, so none of them stands for a flag.
var forCommands = []string{"COORDD_ITEM", "COORDD_TOKEN", "COORDD_MEMBER", "COORDD_ELECTION",
	"COORDD_GUARD", "COORDD_PAYLOAD_FILE"}

// notOurs are the beginnings of variables that are no settings and have a meaning elsewhere.
var notOurs = []string{"COORDD_GUARD_", "COORDD_TEST_"}

// flagsOf returns the flags of all commands by their names. Of a name that is an order of one
// command and a setting of another it is the setting.
func flagsOf(root *cobra.Command) map[string]*pflag.Flag {
	all := map[string]*pflag.Flag{}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.LocalFlags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if was := all[f.Name]; was == nil || isOrder(was) || !isOrder(f) {
					all[f.Name] = f
				}
			})
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root)
	return all
}

// unknownVariable is a COORDD_ variable that is no setting of any command.
type unknownVariable struct {
	name string
	best []string // the settings that look alike
}

func (u unknownVariable) do() string {
	if ask := didYouMean(u.best); ask != "" {
		return ask
	}
	return `unset it, or find the setting's name with "coordd run --help"`
}

// unknownVariables returns them in the order of their names. What is passed on to commands (the
// names in pass) has its meaning there. An empty variable counts as none.
func unknownVariables(root *cobra.Command, environ, pass []string) []unknownVariable {
	var known []string
	for name := range flagsOf(root) {
		known = append(known, envName(name))
	}
	var found []unknownVariable
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if value == "" || !strings.HasPrefix(name, "COORDD_") || slices.Contains(known, name) ||
			slices.Contains(forCommands, name) || slices.Contains(pass, name) ||
			slices.ContainsFunc(notOurs, func(p string) bool {
				return strings.HasPrefix(name, p)
			}) {
			continue
		}
		u := unknownVariable{name: name}
		// The common beginning would make short names alike.
		for _, best := range alike(strings.TrimPrefix(name, "COORDD_"), cutAll("COORDD_", known)) {
			u.best = append(u.best, "COORDD_"+best)
		}
		found = append(found, u)
	}
	slices.SortFunc(found, func(a, b unknownVariable) int {
		return strings.Compare(a.name, b.name)
	})
	return found
}

func cutAll(prefix string, names []string) []string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = strings.TrimPrefix(name, prefix)
	}
	return short
}

// lookForUnknown notes the unknown variables, for the log of a command that has one, and prints
// them for a command that has none.
func (a *app) lookForUnknown(cmd *cobra.Command) {
	var pass []string
	if f := cmd.Flags().Lookup("pass-env"); f != nil {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			pass = list.GetSlice()
		}
	}
	a.path = cmd.CommandPath()
	a.unknown = unknownVariables(cmd.Root(), a.environ, pass)
	if cmd.Flags().Lookup("log-format") == nil {
		a.printUnknown()
	}
}

func (a *app) printUnknown() {
	for _, u := range a.unknown {
		fmt.Fprintf(a.lines, "%s: the environment variable %s is no setting: %s\n",
			a.path, foreign(u.name), u.do())
	}
	a.unknown = nil
}
