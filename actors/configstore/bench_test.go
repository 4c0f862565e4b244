package configstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/hashicorp/consul/api"
)

// onReal starts a store on a real Consul and waits until it has loaded.
func onReal(b *testing.B, c *realconsul.Cluster, change func(*configstore.Config)) (
	*configstore.Store, func()) {
	b.Helper()
	config := configstore.Config{Service: "bench", Client: c.Client(),
		Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&config)
	}
	s, err := configstore.New(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if err := s.WaitLoaded(ctx); err != nil {
		b.Fatal(err)
	}
	return s, func() {
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad reads 10,000 keys of 100 bytes: a store that starts, and one GET for each key, in
// one run.
func BenchmarkLoad(b *testing.B) {
	const n = 10_000
	c := realconsul.Start(b, realconsul.Options{})
	kv := c.Client().KV()
	for i := 0; i < n; i += 50 {
		ops := make(api.TxnOps, 50)
		for k := range ops {
			ops[k] = &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet,
				Key: fmt.Sprintf("service/bench/config_data/k%05d", i+k), Value: make([]byte, 100)}}
		}
		if ok, got, _, err := c.Client().Txn().Txn(ops, nil); err != nil || !ok {
			b.Fatal(got, err)
		}
	}
	var pass, each time.Duration
	rounds := 0
	for b.Loop() {
		begin := time.Now()
		s, stop := onReal(b, c, func(c *configstore.Config) { c.ReadOnly = true })
		pass += time.Since(begin)
		if got := s.Data().Get().Len(); got != n {
			b.Fatalf("%d keys", got)
		}
		stop()
		begin = time.Now()
		for i := range n {
			if p, _, err := kv.Get(fmt.Sprintf("service/bench/config_data/k%05d", i),
				nil); err != nil || p == nil {
				b.Fatal(p, err)
			}
		}
		each += time.Since(begin)
		rounds++
	}
	b.ReportMetric(pass.Seconds()*1000/float64(rounds), "ms/pass")
	b.ReportMetric(each.Seconds()*1000/float64(rounds), "ms/one-GET-each")
	b.ReportMetric(float64(each)/float64(pass), "GETs/pass")
}

// BenchmarkGet reads a key from the cache and from Consul, in one run.
func BenchmarkGet(b *testing.B) {
	c := realconsul.Start(b, realconsul.Options{})
	s, stop := onReal(b, c, nil)
	defer stop()
	if _, err := s.Put(b.Context(), "k", make([]byte, 100)); err != nil {
		b.Fatal(err)
	}
	const batch = 20_000
	kv := c.Client().KV()
	var ours, theirs time.Duration
	rounds := 0
	for b.Loop() {
		if !s.Fresh() {
			b.Fatal("the cache is not fresh")
		}
		begin := time.Now()
		for range batch {
			if _, err := s.Get(b.Context(), "k"); err != nil {
				b.Fatal(err)
			}
		}
		ours += time.Since(begin) / batch
		const few = 200
		begin = time.Now()
		for range few {
			if _, _, err := kv.Get("service/bench/config_data/k", nil); err != nil {
				b.Fatal(err)
			}
		}
		theirs += time.Since(begin) / few
		rounds++
	}
	b.ReportMetric(float64(ours.Nanoseconds())/float64(rounds), "ns/cached")
	b.ReportMetric(float64(theirs.Nanoseconds())/float64(rounds), "ns/GET")
	b.ReportMetric(float64(theirs)/float64(ours), "GET/cached")
}

// BenchmarkPut writes a key through a store without a log, through one with a log, and by Consul's
// own client, in one run.
func BenchmarkPut(b *testing.B) {
	c := realconsul.Start(b, realconsul.Options{})
	plain, stopPlain := onReal(b, c, nil)
	defer stopPlain()
	dir := b.TempDir()
	logged, stopLogged := onReal(b, c, func(c *configstore.Config) { c.LogDir = dir })
	defer stopLogged()
	kv := c.Client().KV()
	var sums [3]time.Duration
	rounds := 0
	for b.Loop() {
		value := fmt.Appendf(make([]byte, 100), "%d", rounds)
		for i, put := range []func() error{
			func() error { _, err := plain.Put(b.Context(), "plain", value); return err },
			func() error { _, err := logged.Put(b.Context(), "logged", value); return err },
			func() error {
				_, err := kv.Put(&api.KVPair{Key: "service/bench/elsewhere", Value: value}, nil)
				return err
			},
		} {
			begin := time.Now()
			if err := put(); err != nil {
				b.Fatal(err)
			}
			sums[i] += time.Since(begin)
		}
		rounds++
	}
	for i, name := range []string{"ms/put", "ms/put-with-log", "ms/client's-PUT"} {
		b.ReportMetric(sums[i].Seconds()*1000/float64(rounds), name)
	}
	b.ReportMetric(float64(sums[1])/float64(sums[0]), "with-log/without")
	b.ReportMetric(float64(sums[0])/float64(sums[2]), "put/client's")
}
