package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/hashicorp/consul/api"
)

// BenchmarkEventLog writes the assignments of 10,000 items to ten members to a real Consul as a
// leader does, with the event log and without it, in turns. The ratio of the times is the median
// over the pairs.
func BenchmarkEventLog(b *testing.B) {
	const items, members = 10_000, 10
	cluster := realconsul.Start(b, realconsul.Options{})
	var sent atomic.Int64
	cfg := api.DefaultConfig()
	cfg.Address = cluster.Addr()
	consul := &http.Transport{MaxIdleConnsPerHost: 8}
	cfg.HttpClient = &http.Client{Transport: transport.Func(
		func(r *http.Request) (*http.Response, error) {
			sent.Add(max(0, r.ContentLength))
			return consul.RoundTrip(r)
		})}
	client, err := store.NewClient(cfg)
	if err != nil {
		b.Fatal(err)
	}
	var took [2][]float64
	var bytes [2]int64
	round := 0
	for b.Loop() {
		for i := range 2 {
			side := (round + i) % 2
			service := fmt.Sprintf("log-%d-%d", round, side)
			before := sent.Load()
			took[side] = append(took[side], grants(b, client, service, items, members,
				side == 1).Seconds())
			bytes[side] = sent.Load() - before
			if _, err := client.KV().DeleteTree("service/"+service+"/", nil); err != nil {
				b.Fatal(err)
			}
		}
		round++
	}
	var ratios []float64
	for i := range took[0] {
		ratios = append(ratios, took[1][i]/took[0][i])
	}
	for _, x := range [][]float64{took[0], took[1], ratios} {
		slices.Sort(x)
	}
	b.Logf("ratios %.2f", ratios)
	b.ReportMetric(took[0][round/2]*1e3, "ms/without")
	b.ReportMetric(took[1][round/2]*1e3, "ms/with")
	b.ReportMetric(ratios[round/2], "with/without")
	b.ReportMetric(float64(bytes[0])/items, "B/item-without")
	b.ReportMetric(float64(bytes[1]-bytes[0])/items, "B/item-more")
	b.ReportMetric(0, "ns/op")
}

// grants writes the keys of a first plan and returns how long that took.
func grants(b *testing.B, client *api.Client, service string, items, members int,
	log bool) time.Duration {
	b.Helper()
	ctx := context.Background()
	s, err := protocol.New(service, store.Config{Client: client})
	if err != nil {
		b.Fatal(err)
	}
	k := s.Keys()
	led, err := s.Txn(ctx, store.Set(k.Leader(), []byte("member-00"), 0))
	if err != nil {
		b.Fatal(err)
	}
	w, err := store.OpenWriter(ctx, s, store.CheckIndex(k.Leader(), led.Index),
		k.Sequence("leader/"), 4)
	if err != nil {
		b.Fatal(err)
	}
	slot := 0
	if log {
		w.Comment(store.Set(k.Event(protocol.EventSlots-1),
			make([]byte, protocol.MaxEventBytes), 0),
			func(units []store.Unit) (store.Op, bool) {
				e := protocol.Event{What: protocol.EventGranted, To: units[0].Lane, Why: "new"}
				for _, u := range units {
					e.Items = append(e.Items, u.Tag.(string))
				}
				slot = (slot + 1) % protocol.EventSlots
				r := protocol.EventRecord{At: time.Now().UnixMilli(), Leader: "member-00",
					Epoch: led.Index, Events: []protocol.Event{e}}
				return store.Set(k.Event(slot), r.Encode(), 0), true
			})
	}
	value := protocol.Assignment{State: protocol.StateOwn,
		Session: "0d8f3a2e-0000-4000-8000-000000000000", Reason: "new"}.Encode()
	units := make([]store.Unit, items)
	for i := range units {
		member, item := fmt.Sprintf("member-%02d", i*members/items),
			fmt.Sprintf("device_group_%06d", i)
		units[i] = store.Unit{Lane: member, Tag: item,
			Ops: []store.Op{store.Create(k.Assignment(member, item), value)}}
	}
	start := time.Now()
	outcomes := w.Write(ctx, units)
	took := time.Since(start)
	for _, o := range outcomes {
		if o.Err != nil {
			b.Fatal(o.Err)
		}
	}
	return took
}
