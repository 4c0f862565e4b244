package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version that a packager gives: go build -ldflags '-X main.release=v1.2.3'.
var release string

// version tells what was built from what. A build from a checkout has the revision only.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v = "devel-" + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return v
}

// built tells the version, the toolchain and the commit in one line.
func built() string {
	toolchain, commit := "unknown Go", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		toolchain = info.GoVersion
		changed := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = ", with changes"
			}
		}
		commit += changed
	}
	return fmt.Sprintf("coordd %s (%s, commit %s)\n", version(), toolchain, commit)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: "Prints the version of coordd, the Go toolchain that built it and the commit it " +
			"was built from.",
		Example: "  coordd version",
		Args:    noArguments,
		RunE: a.does(func(context.Context, []string) error {
			_, err := fmt.Fprint(a.out, built())
			return err
		}),
	}
}
