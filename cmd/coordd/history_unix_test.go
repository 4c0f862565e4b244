//go:build unix

package main

import (
	"context"
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

// What is read again after a while says that something is missing.
func TestAHistoryThatIsReadLateSaysThatItBrokeOff(t *testing.T) {
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
	if h.rec.Err() == nil {
		t.Errorf("all of %d lines are taken to be written", 2*items)
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
	for end := time.Now().Add(time.Minute); !h.lines.Flush(time.Minute); { // it was given up before
		if time.Now().After(end) {
			t.Fatal("the pipe is read, and nothing is written to it")
		}
	}
	_ = work(t.Context(), actors.Item{ID: "last", Token: items})
	_ = h.close()
	events := <-read
	r := history.Check(events, history.Options{})
	if len(r.Breaches) > 0 || len(r.Lost) == 0 {
		t.Errorf("%v", r)
	}
	if n := len(events); events[n-1].Verb != history.End {
		t.Errorf("the last of %d events is %v", n, events[n-1])
	}
}
