package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/metrics"
	"github.com/coordd/coordd/supervisor"
)

// Prometheus panics over a label that is no UTF-8, in a goroutine of its own, and fails a scrape with
// two series of the same labels. A host's version and the names of its actors may be such.
func TestAScrapeOfNamesThatAreNoUTF8DoesNotEndTheProcess(t *testing.T) {
	bubble(t, func(w *world) {
		wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
		host, err := supervisor.New("host", supervisor.Tree{Children: []supervisor.Child{
			{Name: "caf\xe9", Run: wait}, {Name: "caf\xe8", Run: wait}}})
		if err != nil {
			w.Fatal(err)
		}
		w.shown("a", "v1.\xff2", metrics.Options{
			Process: func() *supervisor.Supervisor { return host }})
		w.want(1, "coordd_build_info", "version=v1.\uFFFD2")
		if _, n := w.sum("coordd_actor_restarts_total", "actor=caf\uFFFD"); n != 1 {
			w.Errorf("%d series of the host's actors", n)
		}
	})
}

// What a host gives to be asked at a scrape is its own code, in a goroutine of Prometheus' own.
func TestAScrapeOfAHostThatPanicsFailsAndDoesNotEndTheProcess(t *testing.T) {
	for name, o := range map[string]metrics.Options{
		"OutputLost": {OutputLost: func() uint64 { panic("no") }},
		"Process":    {Process: func() *supervisor.Supervisor { panic(errors.New("no")) }},
	} {
		bubble(t, func(w *world) {
			w.shown("a", "v1", o)
			if _, err := w.registry.Gather(); err == nil || !strings.Contains(err.Error(), "panic") {
				w.Errorf("%s: %v", name, err)
			}
		})
	}
}
