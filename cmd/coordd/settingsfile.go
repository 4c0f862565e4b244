package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// maxSettings is the largest settings file, in bytes.
const maxSettings = 1 << 20

// configFlag registers --config, which all commands have.
func (a *app) configFlag(f *pflag.FlagSet) {
	f.StringVar(&a.configPath, "config", "",
		"The YAML `file` to take settings from: the names of flags, without dashes before them, "+
			"and their values. Flags and variables win.")
}

// fileSetting is one line of a settings file.
type fileSetting struct {
	name   string
	values []string // one; for a list, any number
	list   bool
	line   int
}

func (s fileSetting) text() string { return strings.Join(s.values, ",") }

// readSettings reads a settings file. Errors are bad usage, and name file and line. all are the
// flags of all commands, by name: a file may be for several of them.
func readSettings(ctx context.Context, path string, all map[string]*pflag.Flag) ([]fileSetting,
	error) {
	text, err := reading(ctx, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, maxSettings+1))
	})
	switch {
	case errors.Is(err, errInterrupted):
		return nil, err
	case err != nil:
		return nil, usage("--config: %v", err)
	case len(text) > maxSettings:
		return nil, usage("--config %s: it has more than %d bytes: give a file of settings", path,
			maxSettings)
	}
	return parseSettings(path, text, all)
}

// parseSettings is readSettings for a text.
func parseSettings(path string, text []byte, all map[string]*pflag.Flag) ([]fileSetting, error) {
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	var document yaml.Node
	if err := d.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, usage("%s", yamlTrouble(path, err))
	}
	var second yaml.Node
	if err := d.Decode(&second); err == nil {
		return nil, usage("%s:%d: a second document begins: give one", path, second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, usage("%s", yamlTrouble(path, err))
	}
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil, nil // nothing but comments
	}
	if top.Kind != yaml.MappingNode {
		return nil, usage("%s:%d: give lines such as \"ttl: 20s\": the name of a flag and its "+
			"value", path, top.Line)
	}
	var found []fileSetting
	for i := 0; i+1 < len(top.Content); i += 2 {
		s, err := settingOf(top.Content[i], top.Content[i+1], all)
		if err != nil {
			return nil, usage("%s:%d: %v", path, top.Content[i].Line, err)
		}
		if j := slices.IndexFunc(found, func(f fileSetting) bool {
			return f.name == s.name
		}); j >= 0 {
			return nil, usage("%s:%d: %s came on line %d already", path, s.line, s.name,
				found[j].line)
		}
		found = append(found, s)
	}
	return found, nil
}

// yamlLine is how the library begins what it says of a line.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func yamlTrouble(path string, err error) string {
	text := err.Error()
	if at := yamlLine.FindStringSubmatch(text); at != nil {
		return fmt.Sprintf("%s:%s: no YAML: %s", path, at[1], strings.TrimPrefix(text, at[0]))
	}
	return fmt.Sprintf("%s: no YAML: %s", path, strings.TrimPrefix(text, "yaml: "))
}

// settingOf reads one pair.
func settingOf(key, value *yaml.Node, all map[string]*pflag.Flag) (fileSetting, error) {
	s := fileSetting{name: key.Value, line: key.Line}
	f, ok := all[s.name]
	switch {
	case key.Kind != yaml.ScalarNode:
		return s, errors.New("give the name of a flag before the colon")
	case !ok || f.Hidden:
		if best := alike(s.name, settingNames(all)); len(best) > 0 {
			return s, fmt.Errorf("%q is no setting: %s", s.name, didYouMean(best))
		}
		return s, fmt.Errorf("%q is no setting: \"coordd run --help\" lists them, without the "+
			"dashes before them", s.name)
	case !isSetting(f):
		return s, fmt.Errorf("%s is an order, and taken from the command line only", s.name)
	}
	_, s.list = f.Value.(pflag.SliceValue)
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode && s.list {
		nodes = value.Content
	}
	for _, n := range nodes {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch {
		case n.Kind != yaml.ScalarNode:
			return s, fmt.Errorf("%s takes one value, such as text, a number or a time", s.name)
		case n.Tag == "!!null":
			return s, fmt.Errorf(`%s has no value: give one, "" for an empty one, or leave it out`,
				s.name)
		}
		s.values = append(s.values, n.Value)
	}
	return s, nil
}

// isSetting tells whether a file may hold the flag.
func isSetting(f *pflag.Flag) bool {
	return !isOrder(f) && f.Name != "config" && f.Name != "help" && f.Name != "version"
}

func settingNames(all map[string]*pflag.Flag) []string {
	var names []string
	for name, f := range all {
		if isSetting(f) && !f.Hidden {
			names = append(names, name)
		}
	}
	return names
}

// setFrom sets the flags of a command that are not set yet from the file. Those of other commands
// are passed over: a file may be for several of them.
func setFrom(path string, settings []fileSetting, flags *pflag.FlagSet) (taken, error) {
	var set taken
	for _, s := range settings {
		f := flags.Lookup(s.name)
		if f == nil || f.Changed || isOrder(f) { // it is a setting of another command
			continue
		}
		if slices.Contains(neverEmpty, s.name) && len(s.parts()) == 0 {
			return nil, usage("%s:%d: %v", path, s.line, errEmpty(s.name))
		}
		var err error
		if s.list {
			err = f.Value.(pflag.SliceValue).Replace(s.parts())
			f.Changed = true
		} else {
			err = flags.Set(s.name, s.text())
		}
		if err != nil {
			shown, _ := actors.SplitAddress(s.text())
			return nil, usage("%s:%d: %s is %q: %v", path, s.line, s.name, shown,
				reason(inWords(flags, err)))
		}
		set = append(set, setting{flag: s.name, name: fmt.Sprintf("%s:%d", path, s.line),
			value: s.text(), file: true})
	}
	return set, nil
}

// parts are the values of a list. One text may name several, with commas between, as a flag may.
func (s fileSetting) parts() []string {
	parts := []string{}
	for _, v := range s.values {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

// fromFile sets the flags that neither the command line nor the environment has set from the file
// that --config names.
func (a *app) fromFile(cmd *cobra.Command) error {
	if a.configPath == "" {
		if cmd.Flags().Changed("config") {
			return usage("--config is empty: name a file, or leave it out")
		}
		return nil
	}
	settings, err := readSettings(cmd.Context(), a.configPath, flagsOf(cmd.Root()))
	if err != nil {
		return err
	}
	set, err := setFrom(a.configPath, settings, cmd.Flags())
	a.taken = append(a.taken, set...)
	return err
}
