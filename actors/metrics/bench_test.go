package metrics_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/actors/metrics"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// What a scrape costs of a leader that runs every item itself.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
			c := actorstest.New(b)
			var work []actors.WorkInput
			for i := range n {
				work = append(work, actors.WorkInput{ID: fmt.Sprintf("item_%05d", i)})
			}
			if err := c.Operator().AddWork(b.Context(), work...); err != nil {
				b.Fatal(err)
			}
			m := metrics.New()
			member := c.Start("a", nil, func(c *actors.Config) {
				c.Observer, c.WorkerSoak, c.Logger = m, time.Millisecond,
					slog.New(slog.DiscardHandler)
			}).Coordinator()
			if _, err := member.Holdings().Wait(b.Context(), func(h messages.Holdings) bool {
				return h.Running() == n
			}); err != nil {
				b.Fatal(err)
			}
			handler := metrics.Handler(m.Collector(member, metrics.Options{}))
			bytes := int64(0)
			for b.Loop() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				bytes, _ = io.Copy(io.Discard, w.Body)
			}
			b.ReportMetric(float64(bytes), "bytes/scrape")
		})
	}
}

// What counting adds to a call to Consul that takes no time itself: both ways in turns, so that
// what else the machine does befalls both.
func BenchmarkCountedCall(b *testing.B) {
	consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
	defer consul.Close()
	var stores []*store.Store
	for _, o := range []messages.Observer{nil, metrics.New()} {
		s, err := store.New(store.Config{Client: consul.Client(), Observer: o,
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		stores = append(stores, s)
	}
	var took [2]time.Duration
	calls := 0
	for b.Loop() {
		for turn := range stores {
			i := (turn + calls/100) % 2 // neither is always the first
			s, begin := stores[i], time.Now()
			for range 100 {
				if _, _, _, err := s.Get(b.Context(), "some/key", store.Default); err != nil {
					b.Fatal(err)
				}
			}
			took[i] += time.Since(begin)
		}
		calls += 100
	}
	without, with := float64(took[0].Nanoseconds()), float64(took[1].Nanoseconds())
	b.ReportMetric(without/float64(calls), "ns/call-without")
	b.ReportMetric(with/float64(calls), "ns/call-with")
	b.ReportMetric(with/without, "ratio")
	b.ReportMetric(0, "ns/op")
}

// What one event costs.
func BenchmarkEvent(b *testing.B) {
	m := metrics.New()
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(messages.CallEnded{Kind: "get", Result: messages.ResultOK,
			Took: time.Millisecond})
	}
}
