package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// forCommands are the variables that coordd gives to commands. A coordd that such a command runs
// has them in its environment, so none of them stands for a flag.
var forCommands = []string{"COORDD_ITEM", "COORDD_TOKEN", "COORDD_GRANT", "COORDD_MEMBER",
	"COORDD_ELECTION", "COORDD_PERIOD", "COORDD_GUARD", "COORDD_PAYLOAD_FILE"}

// envName is the variable that stands for a flag.
func envName(flag string) string {
	return "COORDD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// configFlag registers --config, which all commands have.
func (a *app) configFlag(f *pflag.FlagSet) {
	f.StringVar(&a.configPath, "config", "",
		"The YAML `file` to take settings from: the names of flags, without dashes before them, "+
			"and their values. Flags and variables win.")
}

// settings sets the flags of a command that the command line did not: from their variables, and
// then from the settings file.
func (a *app) settings(cmd *cobra.Command) error {
	if err := a.fromEnvironment(cmd.Flags()); err != nil || a.configPath == "" {
		return err
	}
	found, err := readSettings(a.configPath, cmd.Root())
	if err != nil {
		return err
	}
	a.fromFile, err = found.set(cmd.Flags())
	return err
}

// fromEnvironment sets flags from their variables. An empty variable counts as none, but for
// --http, where it means off.
func (a *app) fromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := envName(f.Name)
		if f.Changed || err != nil || !isSetting(f) || slices.Contains(forCommands, name) {
			return
		}
		value, ok := a.env(name)
		if f.Name == "backend" && value == "" { // the name that earlier systems use
			name = "BACKEND"
			value, ok = a.env(name)
		}
		if !ok || value == "" && f.Name != "http" {
			return
		}
		if err = set(f, flags, trimmed(value)); err != nil {
			err = usage("the environment variable %s is %q: %v", name, value, err)
		}
		a.sources = append(a.sources, name)
	})
	return err
}

// set gives a flag a value. The error names no flag.
func set(f *pflag.Flag, flags *pflag.FlagSet, value string) error {
	err := flags.Set(f.Name, value)
	if err != nil {
		if _, after, ok := strings.Cut(err.Error(), "flag: "); ok {
			return fmt.Errorf("%s", after)
		}
	}
	return err
}

// fileSettings are the lines of a settings file.
type fileSettings struct {
	path  string
	lines map[string]yaml.Node
}

// readSettings reads a settings file. It may be for several commands: it is an error only if no
// command has a setting of a name.
func readSettings(path string, root *cobra.Command) (fileSettings, error) {
	s := fileSettings{path: path}
	text, err := os.ReadFile(path)
	if err != nil {
		return s, usage("--config: %v", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&s.lines); err != nil && err != io.EOF { // it may be empty
		return s, usage("%s: %v: give lines such as \"ttl: 20s\"", path, err)
	}
	if err := d.Decode(new(yaml.Node)); err != io.EOF {
		return s, usage("%s: more follows its settings, after a line \"---\": give one document",
			path)
	}
	known := settingNames(root)
	for _, name := range slices.Sorted(maps.Keys(s.lines)) {
		if !known[name] || name == "config" {
			return s, usage("%s:%d: %q is no setting%s", path, s.lines[name].Line, name,
				didYouMean("", name, slices.Collect(maps.Keys(known))))
		}
	}
	return s, nil
}

// set sets the flags of a command that are not set yet, and returns their names.
func (s fileSettings) set(flags *pflag.FlagSet) (names []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.lines)) {
		f, line := flags.Lookup(name), s.lines[name]
		if f == nil || f.Changed || !isSetting(f) {
			continue
		}
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case isList && line.Kind == yaml.SequenceNode:
			var values []string
			err = line.Decode(&values)
			if err == nil {
				err = list.Replace(values)
			}
			f.Changed = true
		case line.Kind == yaml.ScalarNode:
			err = set(f, flags, trimmed(line.Value))
		default:
			err = fmt.Errorf("give one value, such as text, a number or a time")
		}
		if err == nil && isEmpty(f) {
			err = fmt.Errorf("give a value, or leave it out")
		}
		if err != nil {
			return nil, usage("%s:%d: %s is %q: %v", s.path, line.Line, name, line.Value, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// unknownVariables says which COORDD_ variables are no setting of any command. A variable that is
// passed on to commands has its meaning there.
func unknownVariables(root *cobra.Command, environ, passed []string) (said []string) {
	known := settingNames(root)
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(kv, "=")
		short, ours := strings.CutPrefix(name, "COORDD_")
		short = strings.ToLower(strings.ReplaceAll(short, "_", "-"))
		if value == "" || !ours || known[short] || slices.Contains(forCommands, name) ||
			slices.Contains(passed, name) || strings.HasPrefix(short, "guard-") ||
			strings.HasPrefix(short, "test-") {
			continue
		}
		said = append(said, fmt.Sprintf("the environment variable %s is no setting%s", safe(name),
			didYouMean("--", short, slices.Collect(maps.Keys(known)))))
	}
	return said
}

// nameUnknown says which variables are unknown: in the log of a command that has one, and else on
// standard error.
func (a *app) nameUnknown(cmd *cobra.Command) {
	var passed []string
	if f := cmd.Flags().Lookup("pass-env"); f != nil {
		passed = f.Value.(pflag.SliceValue).GetSlice()
	}
	a.unknown = unknownVariables(cmd.Root(), a.environ, passed)
	if cmd.Flags().Lookup("log-format") == nil {
		for _, said := range a.unknown {
			fmt.Fprintf(a.lines, "%s: %s\n", cmd.CommandPath(), said)
		}
	}
}
