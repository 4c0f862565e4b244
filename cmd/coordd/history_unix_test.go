//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/history"
)

// A pipe that nobody reads takes what its buffer holds and then blocks whoever writes to it.
func TestAHistoryThatNobodyReadsKeepsNoWorkFromEnding(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	must(t, syscall.Mkfifo(name, 0o600))
	h, err := openHistory(name)
	must(t, err)
	h.proc = "m1#1"
	work := h.wrap(func(context.Context, actors.Item) error { return nil })
	const items = 5000
	over := make(chan error)
	go func() {
		for i := range items {
			_ = work(t.Context(), actors.Item{ID: fmt.Sprintf("a_work_item_with_a_name_%d", i),
				Token: uint64(i)})
		}
		over <- h.close()
	}()
	select {
	case err := <-over:
		if err == nil {
			t.Error("nothing is said of what is not in the history")
		}
	case <-time.After(time.Minute):
		t.Fatal("the work has not ended within a minute")
	}
}

// A history whose file did not take a line breaks off before it: later lines would tell of work
// whose beginning is missing.
func TestAHistoryThatIsReadLateBreaksOff(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	must(t, syscall.Mkfifo(name, 0o600))
	h, err := openHistory(name)
	must(t, err)
	h.proc = "m1#1"
	h.record(history.Event{Verb: history.Boot})
	work := h.wrap(func(context.Context, actors.Item) error { return nil })
	const items = 100_000
	for i := range items {
		_ = work(t.Context(), actors.Item{ID: fmt.Sprint(i), Token: uint64(i)})
	}
	if !errors.Is(h.rec.Err(), history.ErrLost) {
		t.Errorf("all of %d lines are taken to be written: %v", 2*items, h.rec.Err())
	}
	reader, err := os.Open(name)
	must(t, err)
	defer reader.Close()
	read := make(chan []history.Event)
	go func() {
		events, err := history.Read(reader)
		if err != nil {
			t.Error(err)
		}
		read <- events
	}()
	if !h.rec.Flush(time.Minute) {
		h.rec.Flush(time.Minute) // it was given up before
	}
	_ = work(t.Context(), actors.Item{ID: "last", Token: items})
	if h.close() == nil {
		t.Error("nothing is said of what is not in the history")
	}
	events := <-read
	if r := history.Check(events, history.Options{}); len(r.Breaches) > 0 ||
		r.Starts == 0 || r.Starts == items || events[len(events)-1].Item == "last" {
		t.Errorf("%v, up to %v", r, events[len(events)-1])
	}
}

// What the guard found late had been killed in time.
func TestAHistoryHasBothMomentsOfAnEnd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	h, err := openHistory(name)
	must(t, err)
	h.proc = "m1#1"
	var ran, at time.Time
	work := h.wrap(func(ctx context.Context, item actors.Item) error {
		ran, at = time.Now(), time.Now()
		if item.ID == "at-once" {
			ran = ran.Add(-time.Hour) // when the guard looked last
		}
		ended(ctx, ran, at)
		return nil
	})
	for _, id := range []string{"late", "at-once"} {
		h.record(history.Event{Verb: history.Boot})
		must(t, work(t.Context(), actors.Item{ID: id, Token: 5}))
		file, err := os.Open(name)
		must(t, err)
		h.rec.Flush(time.Minute)
		events, err := history.Read(file)
		must(t, err)
		file.Close()
		events = events[len(events)-3:]
		if id == "at-once" {
			ran = events[1].At
		}
		if events[0].Verb != history.Start || events[1].Verb != history.Ran ||
			!events[1].At.Equal(ran) || events[1].At.Before(events[0].At) ||
			events[2].Verb != history.Stop || !events[2].At.Equal(at) {
			t.Errorf("%s ran until %v and was gone at %v: %v", id, ran, at, events)
		}
	}
	must(t, h.close())
}
