//go:build linux

package guard_test

import (
	"context"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
)

func benchGuard(b *testing.B, cfg guard.Config) *guard.Guard {
	g, ran := guard.New(cfg), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ran <- g.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-ran })
	g.Lease("s1", time.Now().Add(time.Hour), time.Second)
	return g
}

// BenchmarkExec is the way there and back: start, end, and the look that nothing is left.
func BenchmarkExec(b *testing.B) {
	g := benchGuard(b, guard.Config{})
	for b.Loop() {
		if err := g.Exec(b.Context(), guard.Spec{Name: "w", Command: "exit 0"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkThousand starts 1,000 commands and stops them all.
func BenchmarkThousand(b *testing.B) {
	const n = 1000
	out, in, err := os.Pipe() // each command says one byte when it runs
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	g := benchGuard(b, guard.Config{Stdout: in})
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, n)
		begin := time.Now()
		for i := range n {
			go func() {
				ended <- g.Exec(ctx, guard.Spec{Name: strconv.Itoa(i),
					Command: "echo; exec sleep 1000"})
			}()
		}
		if _, err := io.CopyN(io.Discard, out, n); err != nil {
			b.Fatal(err)
		}
		started := time.Now()
		cancel()
		for range n {
			<-ended
		}
		b.ReportMetric(started.Sub(begin).Seconds()*1000, "start-ms")
		b.ReportMetric(time.Since(started).Seconds()*1000, "stop-ms")
	}
}
