package main

import (
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/spf13/cobra"
)

// flushLimit is how long the end of the process waits for what is still to be written to standard
// error.
const flushLimit = time.Second

// logFlags say how a running member logs. Logs go to standard error, which nobody waits for.
type logFlags struct {
	format, level string
	now           *slog.LevelVar // of the logger; nil: there is none yet
}

const levels = "give debug, info, warn or error"

// levelOf reads a level.
func levelOf(text string) (slog.Level, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(strings.ToUpper(text)))
	if err != nil || strings.ContainsAny(text, "+-") { // info+2 is a level of slog's
		return 0, usage("--log-level %q: %s", text, levels)
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

func (l *logFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.format, "log-format", "text",
		"The `form` of the log on standard error: text or json.")
	f.StringVar(&l.level, "log-level", "info",
		"The least `level` that is logged: debug, info, warn or error.")
}

// maxAttr is how long the text of one attribute of a log line may be, in bytes: much of it is
// somebody else's, a key or a value.
const maxAttr = 4000

// shortAttr cuts what would fill the log. Stacks are our own, and whole.
func shortAttr(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "stack" {
		return a
	}
	text := ""
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		text = v.String()
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			text = err.Error()
		}
	}
	if len(text) <= maxAttr {
		return a
	}
	return slog.String(a.Key, strings.ToValidUTF8(text[:maxAttr], "")+" …")
}

// plainLog escapes in lines of JSON what a terminal would obey, and in lines of text what
// [slog.TextHandler] takes for harmless: DEL.
type plainLog struct{ to io.Writer }

func (p plainLog) Write(line []byte) (int, error) {
	if _, err := p.to.Write(plainJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// logger returns the log of a command, which first names the variables that are no settings.
func (a *app) logger(l *logFlags) (*slog.Logger, error) {
	log, err := l.logger(a.lines)
	if err != nil {
		return nil, err
	}
	for _, u := range a.unknown {
		log.Warn("unknown-variable", "variable", u.name, "do", u.do())
	}
	a.unknown = nil
	return log, nil
}

func (l *logFlags) logger(w *asynclog.Writer) (*slog.Logger, error) {
	l.now = &slog.LevelVar{}
	if err := l.setLevel(l.level); err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: l.now, ReplaceAttr: shortAttr}
	switch l.format {
	case "text":
		return slog.New(w.Handler(func(w io.Writer) slog.Handler {
			return slog.NewTextHandler(plainLog{w}, options)
		})), nil
	case "json":
		return slog.New(w.Handler(func(w io.Writer) slog.Handler {
			return slog.NewJSONHandler(plainLog{w}, options)
		})), nil
	}
	return nil, usage("--log-format %q: give text or json", l.format)
}
