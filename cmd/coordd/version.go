package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version that a packager gives: go build -ldflags '-X main.release=v1.2.3'.
var release string

// version tells what this binary was built from. Of a build from a checkout the Go toolchain names
// the commit, and whether there were changes beside it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); release == "" && ok {
		return info.Main.Version
	}
	return release
}

func versionLine() string { return fmt.Sprintf("coordd %s (%s)", version(), runtime.Version()) }

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Prints the version of coordd, with its commit, and of the Go toolchain that built it.",
		Example: "  coordd version",
		Args:    noArguments,
		RunE: a.does(func(context.Context, []string) error {
			_, err := fmt.Fprintln(a.out, versionLine())
			return err
		}),
	}
}
