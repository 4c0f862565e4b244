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

// build is what this binary was built from.
type build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Commit  string `json:"commit"`
	Changed bool   `json:"changed"` // the checkout held changes beside the commit
}

func built() build {
	b := build{Version: version(), Go: "unknown Go", Commit: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Go = info.GoVersion
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				b.Commit = s.Value
			case s.Key == "vcs.modified":
				b.Changed = s.Value == "true"
			}
		}
	}
	return b
}

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
		Use:   "version",
		Short: "Print the version",
		Long: "Prints the version of coordd, the Go toolchain that built it and the commit it " +
			"was built from.",
		Example: "  coordd version",
		Args:    noArguments,
		RunE: a.does(func(context.Context, []string) error {
			return a.tell(asJSON, built(), built().String())
		}),
	}
	jsonFlag(cmd, &asJSON, "Print JSON.")
	return cmd
}
