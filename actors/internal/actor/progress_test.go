package actor_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// A process that did not run hangs in nothing: what an actor is at counts from when it runs again.
func TestNoActorHangsForTheTimeThatItsProcessStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
		defer consul.Close()
		log := slog.New(slog.DiscardHandler)
		s, err := protocol.New("demo", store.Config{Client: consul.Client(), Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		b := actor.NewBase(actor.Settings{}, s, log)
		root, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{{Name: "a",
			Run: b.Tracked(func(ctx context.Context) error { <-ctx.Done(); return nil })}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = root.Run(ctx); close(done) }()
		defer func() { stop(); <-done }()
		runs := func(d time.Duration) {
			for range d / time.Second {
				s.Tick(true)
				time.Sleep(time.Second)
			}
		}
		hangs := func(when string, want time.Duration) {
			t.Helper()
			now, took := time.Now(), time.Duration(0)
			if who, since := b.Stuck(now); who != "" {
				took = now.Sub(since)
			}
			if took != want {
				t.Errorf("%s, an actor hangs for %v, want %v", when, took, want)
			}
		}
		runs(30 * time.Second)
		time.Sleep(2 * time.Minute) // it is suspended
		hangs("just after", 0)
		runs(actor.StuckAfter - time.Second)
		hangs("while it may be at that", 0)
		runs(time.Second)
		hangs("when it has hung since", actor.StuckAfter)
	})
}
