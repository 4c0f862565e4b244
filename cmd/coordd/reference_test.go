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
		"`coordd help\nCOMMAND` prints the same.\n\n")
	var index, describe func(c *cobra.Command)
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
		if c.HasAvailableLocalFlags() {
			b.WriteString("\n| flag | variable | default | |\n|---|---|---|---|\n")
			c.LocalFlags().VisitAll(func(f *pflag.Flag) { setOut(&b, f) })
		}
		if c.HasAvailableInheritedFlags() {
			fmt.Fprintf(&b, "\nIt takes the flags of [%s](#%s) as well.\n",
				c.Parent().CommandPath(), strings.ReplaceAll(c.Parent().CommandPath(), " ", "-"))
		}
		eachCommand(c, describe)
	}
	index(root)
	describe(root)
	return b.String()
}

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			f(sub)
		}
	}
}

// setOut writes the line of a flag in the table of its command.
func setOut(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden || f.Name == "help" {
		return
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
	fmt.Fprintf(b, "| `--%s%s` | %s | %s | %s |\n", f.Name, kind, variable, value,
		strings.ReplaceAll(usage, "|", `\|`))
}
