package supervisor_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// benchGroup runs a supervisor with n idle dynamic children.
func benchGroup(b *testing.B, n int) (*supervisor.Supervisor, *supervisor.Group) {
	b.Helper()
	groups := make(chan *supervisor.Group)
	s, err := supervisor.New("root", supervisor.Tree{StopTogether: true,
		Children: []supervisor.Child{
			{Name: "lobby", Run: func(ctx context.Context) error {
				groups <- supervisor.Of(ctx)
				<-ctx.Done()
				return nil
			}},
		}}, quiet)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	g := <-groups
	for i := range n {
		if _, err := g.Start(supervisor.Child{Name: "idle-" + strconv.Itoa(i),
			Run: idle}); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return s, g
}

func idle(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// The cost of a child must not depend on how many there are.
func BenchmarkStartAndStop(b *testing.B) {
	for _, n := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprintf("beside=%d", n), func(b *testing.B) {
			_, g := benchGroup(b, n)
			b.ReportAllocs()
			for b.Loop() {
				h, err := g.Start(supervisor.Child{Name: "x", Run: idle})
				if err != nil {
					b.Fatal(err)
				}
				h.Stop()
				<-h.Done()
			}
		})
	}
}

// Naming a stuck child takes a profile of all goroutines.
func BenchmarkNameStuck(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			_, _ = benchGroup(b, n)
			for b.Loop() {
				letGo := make(chan struct{})
				c := hanging("x", letGo)
				c.StopTimeout = time.Nanosecond
				s, err := supervisor.New("stuck", supervisor.Tree{Children: []supervisor.Child{c}},
					quiet)
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(b.Context(), time.Millisecond)
				if err := s.Run(ctx); err == nil {
					b.Fatal("x has stopped")
				}
				cancel()
				close(letGo)
			}
		})
	}
}
