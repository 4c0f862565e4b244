package main

import (
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/spf13/pflag"
)

// flushLimit is how long the end of the process waits for what is still to be written to standard
// error.
const flushLimit = time.Second

// logFlags say how a running member logs. Logs go to standard error, which the member never waits
// for.
type logFlags struct {
	format, level string
	now           *slog.LevelVar // of the logger; nil: there is none yet
}

// levelOf reads a level.
func levelOf(text string) (slog.Level, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(strings.ToUpper(text)))
	if err != nil || strings.ContainsAny(text, "+-") { // info+2 is a level of slog's
		return 0, usage("--log-level %q: give debug, info, warn or error", text)
	}
	return level, nil
}

// setLevel changes the level of the logger.
func (l *logFlags) setLevel(text string) error {
	level, err := levelOf(text)
	if err != nil {
		return err
	}
	l.now.Set(level)
	return nil
}

func (l *logFlags) register(f *pflag.FlagSet) {
	f.StringVar(&l.format, "log-format", "text",
		"The `form` of the log on standard error: text or json.")
	f.StringVar(&l.level, "log-level", "info",
		"The least `level` that is logged: debug, info, warn or error.")
}

// logger returns the log of a command, which first names the variables that are no settings.
func (a *app) logger(l *logFlags) (*slog.Logger, error) {
	log, err := l.logger(a.lines)
	if err != nil {
		return nil, err
	}
	for _, said := range a.unknown {
		log.Warn("unknown-variable", "what", said)
	}
	a.unknown = nil
	slog.SetDefault(log) // of what is said about files that are read again
	return log, nil
}

func (l *logFlags) logger(w *asynclog.Writer) (*slog.Logger, error) {
	l.now = &slog.LevelVar{}
	if err := l.setLevel(l.level); err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: l.now}
	switch l.format {
	case "text":
		return slog.New(w.Handler(func(w io.Writer) slog.Handler {
			return slog.NewTextHandler(w, options)
		})), nil
	case "json":
		return slog.New(w.Handler(func(w io.Writer) slog.Handler {
			return slog.NewJSONHandler(w, options)
		})), nil
	}
	return nil, usage("--log-format %q: give text or json", l.format)
}
