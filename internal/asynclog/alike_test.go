package asynclog_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
)

// each has a line said of n names.
func each(n int, say func(name string)) {
	for i := range n {
		say(fmt.Sprintf("it-%03d", i))
	}
}

func TestLinesOfManyItemsBecomeOne(t *testing.T) {
	for _, c := range []struct {
		what  string
		level slog.Level
		do    func(log *slog.Logger)
		want  []string // lines after the first five, which name one item each
	}{
		{"children that fail together", slog.LevelInfo, func(log *slog.Logger) {
			each(126, func(name string) { log.Warn("child-failed", "path", "root/workers/"+name) })
		}, []string{`level=WARN msg=more-like-it what=child-failed lines=121 names=126 also="it-005 ` +
			`it-006 it-007 it-008 it-009" last.path=root/workers/it-125`}},
		{"items that fail again", slog.LevelInfo, func(log *slog.Logger) {
			for range 3 {
				each(7, func(name string) { log.Error("failed", "code", 1, "item", name) })
			}
		}, []string{`level=ERROR msg=more-like-it what=failed lines=16 names=7 also="it-005 it-006" ` +
			`last.code=1 last.item=it-006`}},
		{"a child of another supervisor, and another logger", slog.LevelInfo,
			func(log *slog.Logger) {
				each(5, func(name string) { log.Warn("failed", "path", "root/workers/"+name) })
				log.Warn("failed", "path", "root/renewer")
				log.With("a", 1).Warn("failed", "path", "root/workers/it-006")
				log.Warn("failed")
			}, []string{"level=WARN msg=failed path=root/renewer",
				"level=WARN msg=failed a=1 path=root/workers/it-006", "level=WARN msg=failed"}},
		{"one above the limit", slog.LevelInfo, func(log *slog.Logger) {
			each(6, func(name string) { log.Info("passes", "item", name) })
		}, []string{"level=INFO msg=passes item=it-005"}},
		{"a slow row", slog.LevelInfo, func(log *slog.Logger) {
			each(7, func(name string) {
				log.Info("passes", "item", name)
				time.Sleep(2500 * time.Millisecond)
			})
		}, []string{"level=INFO msg=passes item=it-005", "level=INFO msg=passes item=it-006"}},
		{"level debug", slog.LevelDebug, func(log *slog.Logger) {
			each(7, func(name string) { log.Info("passes", "item", name) })
		}, []string{"level=INFO msg=passes item=it-005", "level=INFO msg=passes item=it-006"}},
	} {
		for end, wait := range map[string]func(log *slog.Logger){
			"after 10 s":    func(*slog.Logger) { time.Sleep(11 * time.Second); synctest.Wait() },
			"after a flush": func(log *slog.Logger) { asynclog.Flush(log, time.Second) },
		} {
			synctest.Test(t, func(t *testing.T) {
				v, inner := newBlocking(c.level)
				log := asynclog.Wrap(inner)
				c.do(log)
				wait(log)
				if got := strings.Join(v.lines()[5:], "\n"); got != strings.Join(c.want, "\n") {
					t.Errorf("%s, %s:\n%s", c.what, end, got)
				}
			})
		}
	}
}
