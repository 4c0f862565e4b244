package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -count=1 -run TestTheReferenceIsWhatTheCodeSays . -update

var update = flag.Bool("update", false, "write docs/reference.md anew")

func TestTheReferenceIsWhatTheCodeSays(t *testing.T) {
	const name = "../../docs/reference.md"
	want := reference((&app{}).root())
	if *update {
		must(t, os.WriteFile(name, []byte(want), 0o644))
	}
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Errorf("docs/reference.md is not what the code says (%v): run go generate ./cmd/coordd",
			err)
	}
}

// reference is the document of all commands and settings.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Reference of commands and settings\n\n" +
		"Generated from the code by `go generate ./cmd/coordd`; a test fails when it is stale. " +
		"`coordd help\nCOMMAND` prints the same. Each command takes `--config` of [coordd](#coordd) as " +
		"well.\n\n")
	var index, describe, tally func(c *cobra.Command)
	of, rows := map[string]int{}, []string(nil)
	tally = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			row := setOut(f)
			if of[row]++; row != "" && of[row] == 1 {
				rows = append(rows, row)
			}
		})
		eachCommand(c, tally)
	}
	tally(root)
	delete(of, "")
	index = func(c *cobra.Command) {
		fmt.Fprintf(&b, "- [%s](#%s): %s\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(),
			" ", "-"), c.Short)
		eachCommand(c, index)
	}
	describe = func(c *cobra.Command) {
		long := c.Long
		if long == "" {
			long = c.Short + "."
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n\nUsage:\n\n```sh\n%s\n```\n",
			c.CommandPath(), long, c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n\n```sh\n%s\n```\n",
				strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
		}
		var own, theirs []string
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch row := setOut(f); {
			case of[row] >= many:
				theirs = append(theirs, "`--"+f.Name+"`")
			case row != "":
				own = append(own, row)
			}
		})
		if len(own) > 0 {
			b.WriteString(head + strings.Join(own, ""))
		}
		if len(theirs) > 0 {
			fmt.Fprintf(&b, "\nAnd [flags of many commands](#flags-of-many-commands): %s.\n",
				strings.Join(theirs, ", "))
		}
		eachCommand(c, describe)
	}
	index(root)
	b.WriteString("- [Flags of many commands](#flags-of-many-commands)\n")
	describe(root)
	fmt.Fprintf(&b, "\n## Flags of many commands\n%s", head)
	for _, row := range rows {
		if of[row] >= many {
			b.WriteString(row)
		}
	}
	return b.String()
}

// What stands in the tables of so many commands is said once for all.
const many = 3

const head = "\n| flag | variable | default | |\n|---|---|---|---|\n"

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			f(sub)
		}
	}
}

// setOut is the line of a flag in the table of its command; empty: it has none.
func setOut(f *pflag.Flag) string {
	if f.Hidden || f.Name == "help" {
		return ""
	}
	variable, value := "`"+envName(f.Name)+"`", "`"+f.DefValue+"`"
	if !isSetting(f) {
		variable = ""
	}
	if f.DefValue == "" || f.DefValue == "[]" || f.DefValue == "false" {
		value = ""
	}
	kind, usage := pflag.UnquoteUsage(f)
	if kind != "" {
		kind = " " + kind
	}
	return fmt.Sprintf("| `--%s%s` | %s | %s | %s |\n", f.Name, kind, variable, value,
		strings.ReplaceAll(usage, "|", `\|`))
}
