//go:build linux

package guard_test

import (
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/output"
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
	for name, to := range map[string]output.Kind{"raw": output.Raw, "prefix": output.Prefix} {
		b.Run(name, func(b *testing.B) {
			g := benchGuard(b, guard.Config{Output: output.Config{To: to}})
			for b.Loop() {
				if err := g.Exec(b.Context(), guard.Spec{Name: "w",
					Command: "exit 0"}); err != nil {
					b.Fatal(err)
				}
			}
		})
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

// BenchmarkStopInAFlood is how long a stop takes while 100 other commands write as fast as they
// can.
func BenchmarkStopInAFlood(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for name, to := range map[string]output.Config{"raw": {}, "prefix": {To: output.Prefix},
		"file":      {To: output.File, Dir: b.TempDir()},
		"file-rate": {To: output.File, Dir: b.TempDir(), Rate: 100}} {
		b.Run(name, func(b *testing.B) {
			g := benchGuard(b, guard.Config{Stdout: null, Stderr: null, Output: to})
			floods, end := context.WithCancel(context.Background())
			ended := make(chan error, 100)
			for i := range cap(ended) {
				go func() {
					ended <- g.Exec(floods, guard.Spec{Name: "f" + strconv.Itoa(i),
						Command: "exec yes"})
				}()
			}
			var all []time.Duration
			for b.Loop() {
				ctx, cancel := context.WithCancel(context.Background())
				started := make(chan error, 1)
				r, w, err := os.Pipe()
				if err != nil {
					b.Fatal(err)
				}
				go func() {
					started <- g.Exec(ctx, guard.Spec{Name: "w", Command: "echo > /proc/" +
						strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(int(w.Fd())) +
						"; exec sleep 1000"})
				}()
				if _, err := r.Read(make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				begun := time.Now()
				cancel()
				<-started
				all = append(all, time.Since(begun))
				r.Close()
				w.Close()
			}
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2].Seconds()*1000, "stop-ms")
			b.ReportMetric(all[len(all)-1].Seconds()*1000, "longest-ms")
			end()
			for range cap(ended) {
				<-ended
			}
		})
	}
}
