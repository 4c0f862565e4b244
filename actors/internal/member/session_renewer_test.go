package member

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
	"github.com/coordd/coordd/messages"
)

// A session that is still there when the agent was away for longer than the check lasts ends as
// soon as the check's end is in the catalog. It gives a lease again when a report was taken, and
// none before.
func TestNoLeaseBeginsWhileTheCheckMayHaveRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const checkTTL, away = 6 * time.Second, time.Minute
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		log := slog.New(slog.DiscardHandler)
		s, err := protocol.New("demo", store.Config{Client: consul.Client(), Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		// The check's end never gets into this catalog.
		instance := store.Instance{ID: "demo-n1", Service: "demo", CheckTTL: time.Hour}
		if err := s.RegisterInstance(t.Context(), instance); err != nil {
			t.Fatal(err)
		}
		if err := s.ReportInstance(t.Context(), instance, ""); err != nil {
			t.Fatal(err)
		}
		check := messages.NewState(messages.Check{})
		report := func() time.Time {
			now := time.Now()
			check.Set(messages.Check{Known: true, ID: instance.CheckID(), Reported: now})
			return now
		}
		last := report()

		out := messages.NewState(messages.Session{})
		a := NewSessionRenewer(actor.NewBase(actor.Settings{Service: "demo", ID: "n1",
			TTL: 10 * time.Second, Lease: 10 * time.Second, Renew: 3 * time.Second,
			CheckTTL: checkTTL}, s, log), out, check.Reader(),
			messages.NewState(OwnRecord{}).Reader(),
			messages.NewState(messages.Holdings{}).Reader(), func() {})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})

		for range 60 {
			time.Sleep(500 * time.Millisecond)
			last = report()
		}
		before := out.Get()
		if before.Check == "" || time.Since(before.Lease.Start) > 4*time.Second {
			t.Fatalf("while it reports: %+v", before)
		}
		for time.Since(last) < away {
			time.Sleep(time.Second)
			// Consul has a leader again and again meanwhile, which gives all sessions their time.
			if _, _, err := consul.Client().Session().Renew(before.ID, nil); err != nil {
				t.Fatal(err)
			}
			if begun := out.Get().Lease.Start; begun.After(last.Add(checkTTL)) {
				t.Fatalf("a lease begins %v after the last report; the check lasts %v",
					begun.Sub(last), checkTTL)
			}
		}
		last = report()
		time.Sleep(checkTTL / 20)
		if now := out.Get(); now.ID != before.ID || now.Lease.Start.Before(last) {
			t.Errorf("after the report at %v: %+v; before it: %+v", last, now, before)
		}
	})
}
