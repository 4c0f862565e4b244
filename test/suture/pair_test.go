// Package suture_test measures supervisor beside thejerf/suture, in turn in one process:
//
//	cd test/suture && go test -run '^$' -bench . -benchtime 15x
//
// It reports medians of the ratios of ours to theirs, in time, bytes and allocations.
package suture_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/supervisor"
	"github.com/thejerf/suture/v4"
)

const many = 10_000

// cost is of one round of one side.
type cost struct {
	time   time.Duration
	bytes  uint64
	allocs uint64
}

// measure runs f and tells what it took.
func measure(f func()) cost {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begin := time.Now()
	f()
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	return cost{took, after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs}
}

// pair runs both sides in turn, so that what else the machine does meets both, and reports the
// median of the ratios.
func pair(b *testing.B, ours, theirs func() cost) {
	var times, bytes, allocs []float64
	for i := 0; b.Loop(); i++ {
		var o, t cost
		if i%2 == 0 {
			o, t = ours(), theirs()
		} else {
			t, o = theirs(), ours()
		}
		times = append(times, float64(o.time)/float64(t.time))
		bytes = append(bytes, float64(o.bytes)/float64(t.bytes))
		allocs = append(allocs, float64(o.allocs)/float64(t.allocs))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(times), "time-ratio")
	b.ReportMetric(median(bytes), "bytes-ratio")
	b.ReportMetric(median(allocs), "allocs-ratio")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// service is an idle child of either side.
type service func(context.Context) error

func (s service) Serve(ctx context.Context) error { return s(ctx) }

func idle(up *sync.WaitGroup) service {
	return func(ctx context.Context) error {
		up.Done()
		<-ctx.Done()
		return nil
	}
}

var names = func() (names []string) {
	for i := range many {
		names = append(names, "child-"+strconv.Itoa(i))
	}
	return names
}()

var quiet = supervisor.WithLogger(slog.New(slog.DiscardHandler))

// ours starts n children and gives what it costs to start and to stop them.
func ours(b *testing.B, together bool) (start, stop cost) {
	var up sync.WaitGroup
	up.Add(many)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	start = measure(func() {
		tree := supervisor.Tree{StopTogether: together, Children: make([]supervisor.Child, 0, many)}
		for _, name := range names {
			tree.Children = append(tree.Children, supervisor.Child{Name: name, Run: idle(&up)})
		}
		s, err := supervisor.New("root", tree, quiet)
		if err != nil {
			b.Fatal(err)
		}
		go func() { done <- s.Run(ctx) }()
		up.Wait()
	})
	stop = measure(func() {
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	})
	return start, stop
}

func theirs(b *testing.B) (start, stop cost) {
	var up sync.WaitGroup
	up.Add(many)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	start = measure(func() {
		s := suture.New("root", suture.Spec{EventHook: func(suture.Event) {}})
		for range names {
			s.Add(idle(&up))
		}
		go func() { done <- s.Serve(ctx) }()
		up.Wait()
	})
	stop = measure(func() {
		cancel()
		<-done
	})
	return start, stop
}

func BenchmarkStart(b *testing.B) {
	pair(b,
		func() cost { c, _ := ours(b, false); return c },
		func() cost { c, _ := theirs(b); return c })
}

func BenchmarkStopInOrder(b *testing.B) {
	pair(b,
		func() cost { _, c := ours(b, false); return c },
		func() cost { _, c := theirs(b); return c })
}

func BenchmarkStopTogether(b *testing.B) {
	pair(b,
		func() cost { _, c := ours(b, true); return c },
		func() cost { _, c := theirs(b); return c })
}

var errFails = errors.New("it fails")

// failing fails many times and then waits for its end.
func failing(over chan<- struct{}) service {
	n := 0
	return func(ctx context.Context) error {
		if n++; n <= many {
			return errFails
		}
		close(over)
		<-ctx.Done()
		return nil
	}
}

func BenchmarkRestart(b *testing.B) {
	pair(b, func() cost { return ourRestarts(b) }, theirRestarts)
}

func ourRestarts(b *testing.B) cost {
	over := make(chan struct{})
	s, err := supervisor.New("root", supervisor.Tree{MaxRestarts: -1, Children: []supervisor.Child{
		{Name: "fails", Run: failing(over), Backoff: supervisor.Constant(0)},
	}}, quiet)
	if err != nil {
		b.Fatal(err)
	}
	return restarts(over, s.Run)
}

func theirRestarts() cost {
	over := make(chan struct{})
	s := suture.New("root", suture.Spec{EventHook: func(suture.Event) {}, FailureThreshold: 1e9})
	s.Add(failing(over))
	return restarts(over, s.Serve)
}

func restarts(over <-chan struct{}, run func(context.Context) error) cost {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	c := measure(func() {
		go func() { done <- run(ctx) }()
		<-over
	})
	cancel()
	<-done
	return c
}
