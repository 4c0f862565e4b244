//go:build coordd_elections

package onzk_test

import (
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/test/realzookeeper"
	"github.com/go-zookeeper/zk"
)

// BenchmarkHandOver measures the time from a leader's resigning to its successor's leading, against
// the client's own Lock on the same server, in turns. The figures are the medians of all turns.
func BenchmarkHandOver(b *testing.B) {
	server := realzookeeper.Start(b, realzookeeper.Options{}).Servers[0]
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	conns := make([]*onzk.Conn, 2)
	for i := range conns {
		c, err := onzk.Connect(onzk.Config{Servers: []string{server.Addr()},
			SessionTimeout: busyTimeout, Root: "/bench/elections", Logger: quiet})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	nominee := func(conn *onzk.Conn) (e *election.Election, led chan time.Time) {
		e, err := election.New(conn, election.Config{Election: "e", Name: "n", Logger: quiet})
		if err != nil {
			b.Fatal(err)
		}
		statuses, err := e.Nominate(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		led = make(chan time.Time, 1)
		go func() {
			told := false
			for s := range statuses {
				if s.Role == election.Leading && !told {
					told = true
					led <- time.Now()
				}
			}
		}()
		return e, led
	}
	e, led := nominee(conns[0])
	<-led
	lock := func(i int) *zk.Lock {
		return zk.NewLock(conns[i].ZK(), "/lock", zk.WorldACL(zk.PermAll))
	}
	held := lock(0)
	if err := held.Lock(); err != nil {
		b.Fatal(err)
	}
	var ours, theirs []time.Duration
	n := 1
	for b.Loop() {
		next, led := nominee(conns[n%2])
		time.Sleep(50 * time.Millisecond) // until it waits
		begin := time.Now()
		e.Resign()
		ours = append(ours, (<-led).Sub(begin))
		<-e.Done()
		e = next

		waiting, got := lock(n%2), make(chan time.Time, 1)
		go func() {
			if err := waiting.Lock(); err != nil {
				panic(err)
			}
			got <- time.Now()
		}()
		time.Sleep(50 * time.Millisecond)
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
	slices.Sort(ours)
	slices.Sort(theirs)
	mine, its := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(mine.Seconds()*1000, "ms/resign")
	b.ReportMetric(its.Seconds()*1000, "ms/resign-zk.Lock")
	b.ReportMetric(float64(mine)/float64(its), "ours/zk.Lock")
}
