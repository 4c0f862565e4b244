package supervisor_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

func TestAGateThatStaysClosedIsNamedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
		s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{
			{Name: "quick", Gate: true, Run: func(ctx context.Context) error {
				supervisor.Ready(ctx)
				return wait(ctx)
			}},
			{Name: "slow", Gate: true, Run: wait},
			{Name: "after", Run: wait},
		}}, supervisor.WithLogger(log))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if n := len(lines); n < 2 || n > 10 {
			t.Errorf("%d lines in ten minutes: %q", n, lines)
		}
		for _, line := range lines {
			if !strings.Contains(line, "gate-closed path=root/slow") {
				t.Errorf("%q", line)
			}
		}
	})
}

func TestAPanicWhileStoppingLeavesItsTraceWhateverItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s, err := supervisor.New("root",
			supervisor.Tree{Children: []supervisor.Child{{Name: "child",
				Run: func(ctx context.Context) error {
					<-ctx.Done()
					panic(ctx.Err())
				}}}}, supervisor.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Run(ctx)
		if last := s.Report().Children[0].LastCause; last == nil ||
			last.Kind != supervisor.KindPanic || !strings.Contains(text.String(),
			"child-failed-while-stopping") {
			t.Errorf("last cause %v, log %q", last, text.String())
		}
	})
}
