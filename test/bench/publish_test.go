package bench_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/messages"
)

// BenchmarkPublish publishes bursts of states to 100 subscribers that follow
// them, in interleaved rounds without and with a slow one among them: the cost of
// a publish to its publisher, and the ratio of the two.
//
// The figures of parked subscribers are for when every one of them sleeps and has to be woken by
// that very publish. What it costs then is the runtime's price of waking goroutines, beginning with
// the system call that wakes a processor, whatever the means: one-waiter is the same for a bare
// channel with a single reader.
func BenchmarkPublish(b *testing.B) {
	const subscribers, burst = 100, 1000
	plain, slow := newAudience(subscribers, 0), newAudience(subscribers, 1)
	defer plain.end()
	defer slow.end()
	var plainTime, slowTime, plainParked, slowParked, single time.Duration
	rounds := 0
	for b.Loop() {
		plainParked += plain.publish(1)
		slowParked += slow.publish(1)
		plainTime += plain.publish(burst)
		slowTime += slow.publish(burst)
		single += wakeOne()
		rounds++
	}
	per := func(d time.Duration, n int) float64 {
		return float64(d.Nanoseconds()) / float64(n*rounds)
	}
	b.ReportMetric(per(plainTime, burst), "ns/publish")
	b.ReportMetric(float64(slowTime)/float64(plainTime), "slow/plain")
	b.ReportMetric(per(plainParked, 1), "ns/parked-publish")
	b.ReportMetric(float64(slowParked)/float64(plainParked), "parked-slow/plain")
	b.ReportMetric(per(single, 1), "ns/one-waiter")
	b.ReportMetric(0, "ns/op")
}

// wakeOne times the closing of a channel on which one goroutine sleeps.
func wakeOne() time.Duration {
	c, ready, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		close(ready)
		<-c
		close(done)
	}()
	<-ready
	time.Sleep(20 * time.Microsecond)
	start := time.Now()
	close(c)
	took := time.Since(start)
	<-done
	return took
}

type audience struct {
	state   *messages.State[int]
	quick   int64
	waiting atomic.Int64 // quick subscribers that wait
	seen    atomic.Int64 // the sum of the values that the quick ones saw last
	cancel  context.CancelFunc
	all     sync.WaitGroup
	last    int
}

func newAudience(n, slow int) *audience {
	a := &audience{state: messages.NewState(0), quick: int64(n - slow)}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	for i := range n {
		c := a.state.Subscribe()
		a.all.Go(func() {
			last := 0
			for {
				if i >= slow {
					a.waiting.Add(1)
				}
				v, err := c.Next(ctx)
				if err != nil {
					return
				}
				if i < slow {
					<-ctx.Done() // takes one value and never comes back for another
					return
				}
				a.waiting.Add(-1)
				a.seen.Add(int64(v - last))
				last = v
			}
		})
	}
	return a
}

// publish waits until all the quick subscribers have seen the last value and
// wait again, and times n publishes.
func (a *audience) publish(n int) time.Duration {
	for a.seen.Load() != a.quick*int64(a.last) || a.waiting.Load() != a.quick {
		time.Sleep(10 * time.Microsecond)
	}
	start := time.Now()
	for range n {
		a.last++
		a.state.Set(a.last)
	}
	return time.Since(start)
}

func (a *audience) end() {
	a.cancel()
	a.all.Wait()
}
