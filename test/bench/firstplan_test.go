package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/hashicorp/consul/api"
)

// BenchmarkFirstPlan lets a leader write the first plan of 100,000 items for ten members to a real
// Consul, and beside it sends bare transactions of 128 sets with as many keys and the same values,
// one after another and four in flight, in rounds in which each side takes its turn at going first
// (what the server still does for the import weighs on whoever comes first). The leader's time is
// from the word go (control/freeze deleted) to the answer for the last key: planning, guards and
// conditions included. Of each side it also gives the processor time of client and server, which
// the machine's other work changes little. The leader's includes its look at what it has written.
func BenchmarkFirstPlan(b *testing.B) {
	const items, members = 100_000, 10
	cluster := realconsul.Start(b, realconsul.Options{})
	client := cluster.Client()
	var took, used, server [3][]time.Duration
	round := 0
	for b.Loop() {
		p := newPlanRound(b, client, fmt.Sprintf("plan-%d", round), items, members)
		sides := []func() time.Duration{
			func() time.Duration { return p.lead(b) },
			func() time.Duration { return p.bare(b, fmt.Sprintf("one-%d", round), members, 1) },
			func() time.Duration { return p.bare(b, fmt.Sprintf("four-%d", round), members, 4) },
		}
		for i := range sides {
			side := (round + i) % len(sides)
			before, own := cpuTime(), ownTime()
			took[side] = append(took[side], sides[side]())
			used[side] = append(used[side], cpuTime()-before)
			server[side] = append(server[side], cpuTime()-before-(ownTime()-own))
		}
		p.check(b)
		p.end(b)
		for _, service := range []string{"plan", "one", "four"} {
			if _, err := client.KV().DeleteTree(fmt.Sprintf("service/%s-%d/", service, round),
				nil); err != nil {
				b.Fatal(err)
			}
		}
		round++
	}
	b.Logf("plan %v, bare one by one %v, bare four in flight %v", took[0], took[1], took[2])
	b.Logf("processor time: plan %v (server %v), bare four in flight %v (%v)", used[0], server[0],
		used[2], server[2])
	var median, cpu, its [3]float64
	for side := range took {
		for _, times := range [][]time.Duration{took[side], used[side], server[side]} {
			slices.Sort(times)
		}
		median[side] = took[side][len(took[side])/2].Seconds()
		cpu[side] = used[side][len(used[side])/2].Seconds()
		its[side] = server[side][len(server[side])/2].Seconds()
	}
	b.ReportMetric(median[0], "s/plan")
	b.ReportMetric(median[1], "s/bare-one-by-one")
	b.ReportMetric(median[2], "s/bare-four-in-flight")
	b.ReportMetric(median[0]/median[1], "plan/one-by-one")
	b.ReportMetric(median[0]/median[2], "plan/four-in-flight")
	b.ReportMetric(cpu[0], "cpu-s/plan")
	b.ReportMetric(cpu[2], "cpu-s/bare-four-in-flight")
	b.ReportMetric(its[0], "server-cpu-s/plan")
	b.ReportMetric(its[2], "server-cpu-s/bare-four-in-flight")
	b.ReportMetric(cpu[0]/cpu[2], "cpu-plan/four-in-flight")
	b.ReportMetric(0, "ns/op")
}

// written notes when the leader logs that it has written grants.
type written struct {
	slog.Handler
	at chan time.Time
}

func (w written) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "assignments-written" {
		w.at <- r.Time
	}
	return nil
}

func (w written) Enabled(context.Context, slog.Level) bool { return true }
func (w written) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w written) WithGroup(string) slog.Handler            { return w }

type planRound struct {
	client   *api.Client
	store    *protocol.Store
	sessions []string
	items    int
	leader   *actors.Coordinator
	written  chan time.Time
	stop     context.CancelFunc
	done     chan error
}

// newPlanRound registers members that do nothing, adds the work, and starts a
// frozen leader that runs no items itself.
func newPlanRound(b *testing.B, client *api.Client, service string, items, members int) *planRound {
	b.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s, err := protocol.New(service, store.Config{Client: client, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	p := &planRound{client: client, store: s, items: items, done: make(chan error, 1),
		written: make(chan time.Time, 100)}
	ctx := context.Background()
	if err := keys.Put(ctx, s, s.Keys().Freeze(), nil, 0); err != nil {
		b.Fatal(err)
	}
	for i := range members {
		id := fmt.Sprintf("member-%02d", i)
		session, _, err := s.CreateSession(ctx, store.SessionOptions{Name: id,
			TTL: 10 * time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		p.sessions = append(p.sessions, session)
		if _, err := s.Txn(ctx, store.Lock(s.Keys().Member(id), []byte("alive"), 0, session),
			store.Set(s.Keys().AssignmentsOf(id), nil, 0)); err != nil {
			b.Fatal(err)
		}
	}
	var keys []string
	for i := range items {
		keys = append(keys, s.Keys().WorkItem(fmt.Sprintf("device_group_%06d", i)))
	}
	sets(b, client, keys, "", 4)
	leader, err := actors.New(actors.Config{
		Timing:  actors.Timing{Merge: time.Millisecond},
		Service: service, ID: "leader", Client: client,
		Logger: slog.New(written{slog.DiscardHandler, p.written}),
	})
	if err != nil {
		b.Fatal(err)
	}
	p.leader = leader
	run, stop := context.WithCancel(ctx)
	p.stop = stop
	go func() { p.done <- leader.Run(run) }()
	p.wait(b, "frozen with all the work read", func(plan facts.Distribution) bool {
		return plan.Total == items && plan.Brake != ""
	})
	return p
}

func (p *planRound) wait(b *testing.B, what string, ok func(facts.Distribution) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if plan, err := p.leader.Distribution().Wait(ctx, ok); err != nil {
		b.Fatalf("waiting for %s: %v; the plan is %+v", what, err, plan)
	}
}

// lead lets the leader go and returns how long it took.
func (p *planRound) lead(b *testing.B) time.Duration {
	b.Helper()
	start := time.Now()
	if err := keys.Delete(context.Background(), p.store,
		p.store.Keys().Freeze()); err != nil {
		b.Fatal(err)
	}
	took := (<-p.written).Sub(start)
	p.wait(b, "every item granted", func(d facts.Distribution) bool { return d.Owned == p.items })
	return took
}

// check reads back what the leader wrote: it must all be there.
func (p *planRound) check(b *testing.B) {
	b.Helper()
	all, _, err := p.store.ListKeys(context.Background(), p.store.Keys().Assignments(), "")
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, key := range all {
		if _, item, ok := p.store.Keys().ParseAssignment(key); ok && item != "" {
			n++
		}
	}
	if n != p.items {
		b.Fatalf("%d assignment keys for %d items", n, p.items)
	}
}

// bare writes as many keys as the plan has, of the same form, elsewhere, with
// values as long as an assignment's.
func (p *planRound) bare(b *testing.B, service string, members, inFlight int) time.Duration {
	b.Helper()
	keys := make([]string, p.items)
	for i := range keys {
		keys[i] = fmt.Sprintf("service/%s/assignments/member-%02d/device_group_%06d", service,
			i*members/p.items, i)
	}
	value := protocol.Assignment{State: protocol.StateOwn, Session: p.sessions[0],
		Reason: "new"}.Encode()
	start := time.Now()
	sets(b, p.client, keys, string(value), inFlight)
	return time.Since(start)
}

func (p *planRound) end(b *testing.B) {
	b.Helper()
	p.stop()
	if err := <-p.done; err != nil {
		b.Fatal(err)
	}
	for _, session := range p.sessions {
		if err := p.store.DestroySession(context.Background(), session); err != nil {
			b.Fatal(err)
		}
	}
}

// sets writes the keys in transactions of 128.
func sets(b *testing.B, client *api.Client, keys []string, value string, inFlight int) {
	b.Helper()
	chunks := make(chan []string)
	var workers sync.WaitGroup
	for range inFlight {
		workers.Go(func() {
			for chunk := range chunks {
				ops := make(api.TxnOps, len(chunk))
				for i, key := range chunk {
					ops[i] = &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: key,
						Value: []byte(value)}}
				}
				if ok, _, _, err := client.Txn().Txn(ops, nil); err != nil || !ok {
					b.Errorf("bare transaction: %v, %v", ok, err)
				}
			}
		})
	}
	for chunk := range slices.Chunk(keys, 128) {
		chunks <- chunk
	}
	close(chunks)
	workers.Wait()
}
