package main

import (
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
)

// logFlags say how a running member logs. Logs go to standard error.
type logFlags struct{ format, level string }

func (l *logFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.format, "log-format", "text", "The `form` of the log on standard error: text or json.")
	f.StringVar(&l.level, "log-level", "info", "The least `level` that is logged: debug, info, warn or error.")
}

func (l *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(l.level))); err != nil {
		return nil, usage("--log-level %q: give debug, info, warn or error", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usage("--log-format %q: give text or json", l.format)
}
