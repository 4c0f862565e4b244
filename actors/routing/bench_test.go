package routing_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/devconsul"
)

// BenchmarkLocate asks for items at random, in interleaved rounds on a cluster with 1,000 items and
// on one with 100,000, both with 100 members; and on the large one while the members' acks change
// all the time.
func BenchmarkLocate(b *testing.B) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	cluster := func(items int) (*routing.Router, *populated) {
		consul := devconsul.New(devconsul.Config{Logger: quiet})
		b.Cleanup(consul.Close)
		w := populate(b, consul, 100, items)
		r, err := routing.New(routing.Config{Service: "demo", Client: consul.Client(),
			Logger: quiet})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		b.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				b.Error(err)
			}
		})
		if _, err := r.Locate(ctx, w.item(0)); err != nil {
			b.Fatal(err)
		}
		return r, w
	}
	small, _ := cluster(1000)
	large, w := cluster(100_000)
	items := make([]string, 100_000)
	for i := range items {
		items[i] = w.item(i * 7919 % len(items))
	}
	ctx := context.Background()
	const burst = 20_000
	thousand := make([]string, 1000)
	for i := range thousand {
		thousand[i] = w.item(i)
	}
	at := 0
	ask := func(r *routing.Router, among []string) time.Duration {
		began := time.Now()
		for range burst {
			at++
			if _, err := r.Locate(ctx, among[at%len(among)]); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(began)
	}
	var few, many, busy time.Duration
	rounds := 0
	for b.Loop() {
		few += ask(small, thousand)
		many += ask(large, items)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					w.write(w.ack(w.member(0), uint64(time.Now().UnixNano())))
				}
			}
		}()
		busy += ask(large, items)
		close(stop)
		<-stopped
		rounds++
	}
	n := float64(burst * rounds)
	b.ReportMetric(float64(many.Nanoseconds())/n, "ns/locate")
	b.ReportMetric(float64(many)/float64(few), "100000-items/1000-items")
	b.ReportMetric(float64(busy)/float64(many), "changing/still")
	b.ReportMetric(0, "ns/op")
}
