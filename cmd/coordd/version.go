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

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Prints the version of coordd and of the Go toolchain that built it.",
		Example: "  coordd version",
		Args:    noArguments,
		RunE: a.does(func(context.Context, []string) error {
			goVersion := "unknown Go"
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
			}
			_, err := fmt.Fprintf(a.out, "coordd %s (%s)\n", version(), goVersion)
			return err
		}),
	}
}
