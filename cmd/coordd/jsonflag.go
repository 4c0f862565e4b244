package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// jsonFlag adds --json, and -o json beside it for whoever is used to that of kubectl: one setting.
func jsonFlag(cmd *cobra.Command, asJSON *bool, usage string) {
	f := cmd.Flags()
	f.BoolVar(asJSON, "json", false, usage)
	f.VarP((*format)(asJSON), "format", "o", "The `format`: text, or json as with --json.")
	_ = cmd.RegisterFlagCompletionFunc("format", func(*cobra.Command, []string,
		string) ([]string, cobra.ShellCompDirective) {
		return []string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp
	})
}

// format is the value of --format: whether it is JSON.
type format bool

func (f *format) String() string {
	if *f {
		return "json"
	}
	return "text"
}

func (f *format) Type() string { return "format" }

func (f *format) Set(text string) error {
	switch text {
	case "json", "text":
		*f = text == "json"
		return nil
	}
	return errors.New("give text or json")
}
