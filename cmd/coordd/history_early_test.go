package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/supervisor"
)

// closed closes a history and returns what is in its file.
func closed(t *testing.T, h *historyFile) []history.Event {
	t.Helper()
	if err := h.close(); err != nil {
		t.Error(err)
	}
	f, err := os.Open(h.file.Name())
	must(t, err)
	defer f.Close()
	events, err := history.Read(f)
	must(t, err)
	return events
}

// recorded runs a member whose history is recorded.
func recorded(ctx context.Context, t *testing.T, cfg actors.Config) (c *actors.Coordinator,
	h *historyFile, ended chan error) {
	t.Helper()
	h, err := openHistory(filepath.Join(t.TempDir(), "history"))
	must(t, err)
	cfg.Service, cfg.Logger = "demo", slog.New(slog.DiscardHandler)
	c, err = actors.New(cfg)
	must(t, err)
	tree, err := supervisor.New("member", supervisor.Tree{Children: append(h.begin(c, cfg.Logger),
		c.Child("coordinator"))}, supervisor.WithLogger(cfg.Logger))
	must(t, err)
	ended = make(chan error, 1)
	go func() { ended <- tree.Run(ctx) }()
	return c, h, ended
}

// A session that Consul ends before the lease is over, with its agent or by an order, lets another
// lead at once. That is no fault of the leader's, and its history says when it was alive last.
func TestAHistorySaysThatASessionEndedBeforeTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := actorstest.New(t).Client()
		ctx, stop := context.WithCancel(t.Context())
		c, h, ended := recorded(ctx, t, actors.Config{ID: "n1", Client: client,
			Timing: actors.Timing{CheckTTL: actors.NoCheck}})
		time.Sleep(11 * time.Second) // three renewals
		before := time.Now()
		if _, err := client.Session().Destroy(c.Session().Get().ID, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		events := closed(t, h)
		early := time.Time{}
		for _, e := range history.Merge(events) {
			switch {
			case e.Verb == history.Early:
				early = e.At
			case e.Verb == history.Unlead && e.At.Before(before.Add(time.Second)) &&
				(early.IsZero() || early.Before(before.Add(-4*time.Second)) || early.After(before)):
				t.Errorf("it leads no more since %v, and the session ended early at %v: %v", e.At,
					early, before)
			}
		}
		if early.IsZero() {
			t.Error("nothing is said of the session that ended early")
		}
	})
}

// A leader that is cut off from Consul leads until its lease is about to end. With a check that is
// shorter than that another one leads by then, lawfully, and the histories are no breach.
func TestALeaderThatIsCutOffBeyondItsCheckIsNoBreach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		defer consul.Close()
		ctx, stop := context.WithCancel(t.Context())
		var ended []chan error
		members, wires := map[string]*actors.Coordinator{}, map[string]*transport.Wire{}
		var histories []*historyFile
		for _, id := range []string{"n1", "n2"} {
			wire := transport.NewWire(consul.RoundTripper())
			c, h, end := recorded(ctx, t, actors.Config{ID: id, Client: devconsul.ClientOver(wire)})
			members[id], wires[id] = c, wire
			histories, ended = append(histories, h), append(ended, end)
			time.Sleep(5 * time.Second)
		}
		if members["n1"].Leadership().Get().Role != facts.Leading {
			t.Fatal("n1 does not lead")
		}
		wires["n1"].Freeze()
		time.Sleep(20 * time.Second)
		if members["n2"].Leadership().Get().Role != facts.Leading {
			t.Error("n2 does not lead")
		}
		wires["n1"].Thaw()
		time.Sleep(10 * time.Second)
		stop()
		var events [][]history.Event
		for i, h := range histories {
			if err := <-ended[i]; err != nil {
				t.Error(err)
			}
			events = append(events, closed(t, h))
		}
		for _, b := range history.Check(history.Merge(events...), history.Options{}).Breaches {
			t.Error(b)
		}
	})
}

// Who holds items without a command holds them as a process that may stand still for longer than
// its lease. Somebody else has them by then, and the histories are no breach.
func TestAMemberThatHoldsItemsAndStandsStillIsNoBreach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := openHistory(filepath.Join(t.TempDir(), "history"))
		must(t, err)
		begin := time.Now()
		h.proc, h.paused = "n1#1", pauseDetector{checked: begin, limit: 3 * time.Second}
		work := h.wrap(hold)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		for _, id := range []string{"w1", "w2"} {
			go func() { ended <- work(ctx, actors.Item{ID: id, Token: 5}) }()
		}
		for range 5 {
			time.Sleep(time.Second)
			h.check(time.Now())
		}
		time.Sleep(20 * time.Second) // it looks at no clock
		stop()
		for range 2 {
			must(t, <-ended)
		}
		other := []history.Event{{Verb: history.Start, Item: "w1", Token: 6},
			{Verb: history.Start, Item: "w2", Token: 7}, {Verb: history.Alive}}
		for i := range other {
			other[i].Proc, other[i].At = "n2#1", begin.Add(time.Duration(15+10*i)*time.Second)
		}
		other[1].At = other[0].At
		events := closed(t, h)
		r := history.Check(history.Merge(events, other), history.Options{})
		if len(r.Breaches) > 0 {
			t.Errorf("%v", r)
		}
	})
}
