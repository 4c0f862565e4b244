package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version that a packager gives: go build -ldflags '-X main.release=v1.2.3'.
var release string

// build is what this binary was built from.
type build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Commit  string `json:"commit"`
	Changed bool   `json:"changed"` // the checkout held changes beside the commit
}

func built() build {
	b := build{Version: release, Go: "unknown Go", Commit: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Changed = s.Value == "true"
		}
	}
	if v := info.Main.Version; b.Version == "" && v != "" && v != "(devel)" {
		b.Version = v
	}
	if b.Version == "" { // a build from a checkout
		b.Version = "devel"
		if b.Commit != "unknown" {
			b.Version += "-" + b.Commit[:min(12, len(b.Commit))]
		}
	}
	return b
}

// version tells what was built from what.
func version() string { return built().Version }

// String is one line.
func (b build) String() string {
	changed := ""
	if b.Changed {
		changed = ", with changes"
	}
	return fmt.Sprintf("coordd %s (%s, commit %s%s)", b.Version, b.Go, b.Commit, changed)
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Prints the version of coordd, the Go toolchain and the commit that it was built from.",
		Example: "  coordd version",
		Args:    noArguments,
		RunE: a.does(func(context.Context, []string) error {
			return a.tell(asJSON, built(), built().String())
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print JSON.")
	return cmd
}
