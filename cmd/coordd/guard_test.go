package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/supervisor"
)

// It would keep its items from everybody, for its session lives.
func TestAMemberWhoseGuardIsStuckGivesUp(t *testing.T) {
	ends := 0
	s, err := supervisor.New("test", supervisor.Tree{Children: []supervisor.Child{{Name: "guard",
		Run: func(context.Context) error {
			ends++
			return guardEnd(fmt.Errorf("guard: %w: of two", guard.ErrStuck))
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, guard.ErrStuck) || ends != 1 {
		t.Errorf("it ended with %v after %d starts of its guard, want %v after 1", err, ends,
			guard.ErrStuck)
	}
}

func TestAProcThatHidesProcessesIsWarnedOf(t *testing.T) {
	for hidden, want := range map[bool]int{false: 0, true: 1} {
		var said testkit.Output
		warnHidden(hidden, slog.New(slog.NewTextHandler(&said, nil)))
		if got := strings.Count(said.String(), "msg=processes-hidden"); got != want {
			t.Errorf("hidden %v: it is said %d times: %q", hidden, got, said.String())
		}
	}
}
