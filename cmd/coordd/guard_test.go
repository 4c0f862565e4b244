package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/coordd/coordd/internal/guard"
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
