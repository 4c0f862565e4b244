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
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/facts"
)

// What a scrape costs of a leader that runs every item itself.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
			c := actorstest.New(b)
			var work []operator.WorkInput
			for i := range n {
				work = append(work, operator.WorkInput{ID: fmt.Sprintf("item_%05d", i)})
			}
			if err := c.Operator().AddWork(b.Context(), work...); err != nil {
				b.Fatal(err)
			}
			m := metrics.New()
			member := c.Start("a", nil, func(c *actors.Config) {
				c.Observer, c.WorkerSoak, c.Logger = m, time.Millisecond,
					slog.New(slog.DiscardHandler)
			}).Coordinator()
			if _, err := member.Holdings().Wait(b.Context(), func(h facts.Holdings) bool {
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
