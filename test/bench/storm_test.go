package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/hashicorp/consul/api"
)

// BenchmarkStorm starts so many members at once, with checks, in this process, at one real Consul
// server, and waits until all of 100 items for each run. Then Consul is away for a minute, and comes
// back. The figures are the times until all items run.
//
//	go test ./test/bench -run '^$' -bench Storm/1000 -benchtime 1x -timeout 30m
func BenchmarkStorm(b *testing.B) {
	for _, members := range []int{100, 1000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			for b.Loop() {
				storm(b, members)
			}
		})
	}
}

func storm(b *testing.B, members int) {
	cluster := realconsul.Start(b, realconsul.Options{Config: map[string]any{
		"limits": map[string]any{"http_max_conns_per_client": 15000}}})
	items := int64(100 * members)
	var keys []string
	for i := range items {
		keys = append(keys, fmt.Sprintf("service/storm/workload/item_%06d", i))
	}
	sets(b, cluster.Client(), keys, "payload", 4)
	var running atomic.Int64
	ctx, stop := context.WithCancel(b.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	began := time.Now()
	for i := range members {
		transport := api.DefaultConfig().Transport
		defer transport.CloseIdleConnections()
		client, err := store.NewClient(&api.Config{Address: cluster.Servers[0].Addr(),
			Transport: transport})
		if err != nil {
			b.Fatal(err)
		}
		m, err := actors.New(actors.Config{Service: "storm", ID: fmt.Sprintf("m%04d", i),
			Client: client, Logger: slog.New(slog.DiscardHandler),
			Work: func(ctx context.Context, _ actors.Item) error {
				running.Add(1)
				defer running.Add(-1)
				<-ctx.Done()
				return nil
			}})
		if err != nil {
			b.Fatal(err)
		}
		ended.Go(func() {
			if err := m.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	whole := func(what string, begin time.Time) {
		for running.Load() != items {
			if time.Since(begin) > 10*time.Minute {
				b.Fatalf("%s: %d of %d items run after 10 minutes", what, running.Load(), items)
			}
			time.Sleep(100 * time.Millisecond)
		}
		b.ReportMetric(time.Since(begin).Seconds(), "s/"+what)
	}
	whole("start", began)
	if err := cluster.Servers[0].Stop(); err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Minute)
	if err := cluster.Servers[0].Start(); err != nil {
		b.Fatal(err)
	}
	whole("back", time.Now())
}
