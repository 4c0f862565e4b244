package onconsul_test

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/hashicorp/consul/api"
)

// The settings of both sides.
const benchTTL, benchLockDelay = 10 * time.Second, time.Second

// wired is a client of a real server whose way there can be cut.
func wired(b *testing.B, c *realconsul.Cluster) (*api.Client, *wire) {
	transport := &http.Transport{}
	w := &wire{next: transport}
	client, err := api.NewClient(&api.Config{Address: c.Addr(),
		HttpClient: &http.Client{Transport: w}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(transport.CloseIdleConnections)
	return client, w
}

// nominee is a candidate of ours; the time at which it leads comes through led.
func nominee(b *testing.B, conn *onconsul.Conn, name string) (e *election.Election,
	led chan time.Time) {
	e, err := election.New(conn, election.Config{Election: "bench", Name: name,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	statuses, err := e.Nominate(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	led = make(chan time.Time, 1)
	waits := make(chan struct{})
	go func() {
		var once, first sync.Once
		for s := range statuses {
			if s.Role == election.Leading {
				once.Do(func() { led <- time.Now() })
			}
			first.Do(func() { close(waits) })
		}
	}()
	<-waits
	return e, led
}

func connection(b *testing.B, client *api.Client, prefix string) *onconsul.Conn {
	c, err := onconsul.Connect(onconsul.Config{Client: client, TTL: benchTTL,
		LockDelay: benchLockDelay, Prefix: prefix, Logger: slog.New(slog.NewTextHandler(io.Discard,
			nil))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func lock(b *testing.B, client *api.Client, key string) *api.Lock {
	l, err := client.LockOpts(&api.LockOptions{Key: key, SessionTTL: benchTTL.String(),
		LockDelay: benchLockDelay})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// acquire returns when l is held, or panics: it is called from goroutines.
func acquire(l *api.Lock) time.Time {
	if lost, err := l.Lock(nil); err != nil || lost == nil {
		panic("the lock was not acquired")
	}
	return time.Now()
}

// BenchmarkHandOver measures the time from a leader's resigning to its successor's leading, against
// the client's own Lock on the same server at the same settings, in turns. The figures are the
// medians of all turns.
func BenchmarkHandOver(b *testing.B) {
	c := realconsul.Start(b, realconsul.Options{})
	prefix := realconsul.Prefix(b)
	clients := make([]*api.Client, 2)
	conns := make([]*onconsul.Conn, 2)
	for i := range clients {
		clients[i], _ = wired(b, c)
		conns[i] = connection(b, clients[i], prefix+"ours/")
	}
	e, led := nominee(b, conns[0], "n")
	<-led
	held := lock(b, clients[0], prefix+"lock")
	acquire(held)
	var ours, theirs []time.Duration
	n := 1
	for b.Loop() {
		next, led := nominee(b, conns[n%2], "n")
		time.Sleep(50 * time.Millisecond) // as before the other's turn
		begin := time.Now()
		e.Resign()
		ours = append(ours, (<-led).Sub(begin))
		<-e.Done()
		e = next

		waiting, got := lock(b, clients[n%2], prefix+"lock"), make(chan time.Time, 1)
		go func() { got <- acquire(waiting) }()
		time.Sleep(50 * time.Millisecond) // it says nothing when it waits
		begin = time.Now()
		if err := held.Unlock(); err != nil {
			b.Fatal(err)
		}
		theirs = append(theirs, (<-got).Sub(begin))
		held = waiting
		n++
	}
	e.Resign()
	<-e.Done()
	_ = held.Unlock()
	b.ReportMetric(median(ours).Seconds()*1000, "ms/resign")
	b.ReportMetric(median(theirs).Seconds()*1000, "ms/resign-api.Lock")
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "ours/api.Lock")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
