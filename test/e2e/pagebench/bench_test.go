//go:build coordd_long

// Package pagebench measures for how long the page keeps a browser busy while much moves:
//
//	cd test/e2e && go test -tags coordd_long -run '^$' -bench Page -benchtime 1x ./pagebench
package pagebench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/test/e2e/chromium"
)

// BenchmarkPage shows a service of 100 members in a headless browser while one member is lost and
// ten others are drained. It says how long the longest task of the page's main thread was, what it
// took of a processor, how many tasks were longer than 100 ms, and all of what the main thread
// took. A page that does not stutter has no long tasks.
//
// COORDD_PAGES names other versions of the page, separated by commas, as NAME=FILE: what they serve
// at /. Each is measured beside today's page, in turns.
func BenchmarkPage(b *testing.B) {
	pages := map[string]http.Handler{"now": today(b)}
	for pair := range strings.SplitSeq(os.Getenv("COORDD_PAGES"), ",") {
		if name, file, found := strings.Cut(pair, "="); found {
			pages[name] = fromFile(b, file)
		}
	}
	names := make([]string, 0, len(pages))
	for name := range pages {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, items := range []int{10_000, 100_000} {
		for _, name := range names {
			b.Run(fmt.Sprintf("items=%dk/page=%s", items/1000, name), func(b *testing.B) {
				var all taken
				for b.Loop() {
					all.add(measure(b, newService(pages[name], 100, items)))
				}
				all.report(b)
			})
		}
	}
}

// today is the page of this version. It asks no Consul.
func today(b testing.TB) http.Handler {
	consul := devconsul.New(devconsul.Config{})
	b.Cleanup(consul.Close)
	op, err := operator.New(consul.Client(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	return web.NewObserver(op, web.Options{})
}

func fromFile(b *testing.B, path string) http.Handler {
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text)
	})
}

// taken is what the main thread of the page has spent on tasks.
type taken struct {
	longest, processor, sum time.Duration
	over50, over100         int
	runs                    int
}

func (t *taken) add(o taken) {
	t.longest, t.processor = max(t.longest, o.longest), max(t.processor, o.processor)
	t.sum += o.sum
	t.over50 += o.over50
	t.over100 += o.over100
	t.runs++
}

func (t *taken) report(b *testing.B) {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(t.longest), "longest-ms")
	b.ReportMetric(ms(t.processor), "longest-cpu-ms")
	b.ReportMetric(float64(t.over50)/float64(t.runs), "over50ms/run")
	b.ReportMetric(float64(t.over100)/float64(t.runs), "over100ms/run")
	b.ReportMetric(ms(t.sum)/float64(t.runs), "cpu-ms/run")
}

// measure opens the page of s and traces it while things move.
func measure(b *testing.B, s *service) taken {
	server := httptest.NewServer(s)
	defer server.Close()
	defer server.CloseClientConnections()
	ctx, stop := chromium.Start(b)
	trace := &trace{done: make(chan struct{})}
	must(b, chromedp.Listen(ctx, trace.hear))
	must(b, chromedp.Do(ctx, chromedp.EmulateViewport(1400, 1000)))
	_, err := chromedp.Call(ctx, tracing.Start, tracing.StartParams{
		TransferMode: tracing.StartTransferModeReportEvents,
		TraceConfig: &tracing.TraceConfig{IncludedCategories: strings.Split(os.Getenv(
			"COORDD_TRACE_CATEGORIES")+",disabled-by-default-devtools.timeline,"+
			"devtools.timeline,__metadata", ",")}})
	must(b, err)
	must(b, chromedp.Do(ctx, chromedp.Navigate(server.URL)))
	await(b, ctx, `document.querySelectorAll(".member").length === 100`)
	s.night()
	must(b, chromedp.Do(ctx, chromedp.KeyEvent("/")))
	for _, key := range "group_0047" {
		must(b, chromedp.Do(ctx, chromedp.KeyEvent(string(key))))
		time.Sleep(150 * time.Millisecond)
	}
	must(b, chromedp.Do(ctx, chromedp.KeyEvent("\x1b")))
	time.Sleep(time.Second)
	_, err = chromedp.Call(ctx, tracing.End, cdp.Empty{})
	must(b, err)
	<-trace.done
	stop()
	if path := os.Getenv("COORDD_TRACE"); path != "" { // chrome://tracing opens it
		must(b, os.WriteFile(path, trace.file(), 0o600))
	}
	return trace.taken()
}

// night loses a member, drains ten, has an item loop, and all work start anew. A person looks.
func (s *service) night() {
	const pause = 1500 * time.Millisecond
	time.Sleep(pause)
	lost := s.owned(50)
	s.step(func() {
		s.gone[50] = true
		for _, i := range lost {
			s.state[i] = operator.ItemWaiting
		}
	}, operator.Event{Kind: "lost", From: "n50", Holds: len(lost), Wait: 10_000})
	time.Sleep(pause)
	elsewhere := func(n int) int { return n%48 + 1 }
	give := func(items []int) func() {
		return func() {
			for n, i := range items {
				s.owner[i], s.state[i] = elsewhere(n), operator.ItemRunning
			}
		}
	}
	s.step(give(lost), s.moves("lost", lost, elsewhere)...)
	time.Sleep(2 * pause)
	drained := s.owned(91, 92, 93, 94, 95, 96, 97, 98, 99, 100)
	s.step(func() {
		for _, i := range drained {
			s.drained[s.owner[i]], s.state[i] = true, operator.ItemStopping
		}
	}, operator.Event{Kind: "drained", From: "n91", By: "ops"})
	time.Sleep(pause)
	s.step(give(drained), s.moves("drain", drained, elsewhere)...)
	time.Sleep(pause)
	s.step(func() { s.state[4711] = operator.ItemLooping })
	time.Sleep(5 * pause)
	s.step(func() {
		for i := range s.state {
			s.state[i] = operator.ItemStarting
		}
	})
	time.Sleep(2 * pause)
	s.step(func() {
		for i := range s.state {
			s.state[i] = operator.ItemRunning
		}
	})
	time.Sleep(2 * pause)
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func await(b testing.TB, ctx context.Context, expression string) {
	b.Helper()
	for range 600 {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		must(b, err)
		if ok {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.Fatalf("not within a minute: %s", expression)
}

// trace is what the browser says of its tasks.
type trace struct {
	mu     sync.Mutex
	events [][]byte
	done   chan struct{}
}

func (t *trace) hear(event any) {
	switch e := event.(type) {
	case *tracing.EventDataCollected:
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, v := range e.Value {
			t.events = append(t.events, bytes.Clone(v))
		}
	case *tracing.EventTracingComplete:
		close(t.done)
	}
}

func (t *trace) file() []byte {
	return slices.Concat([]byte("["), bytes.Join(t.events, []byte(",\n")), []byte("]"))
}

// taken sums up the tasks of the busiest thread that renders a page.
func (t *trace) taken() (most taken) {
	type thread struct{ Pid, Tid int }
	renders, by := map[thread]bool{}, map[thread]*taken{}
	for _, text := range t.events {
		var e struct {
			thread
			Name      string
			Dur, Tdur float64 // µs
			Args      struct{ Name string }
		}
		if json.Unmarshal(text, &e) != nil {
			continue
		}
		if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			renders[e.thread] = true
		}
		if e.Name != "RunTask" {
			continue
		}
		if by[e.thread] == nil {
			by[e.thread] = &taken{}
		}
		dur := time.Duration(e.Dur * float64(time.Microsecond))
		cpu := time.Duration(e.Tdur * float64(time.Microsecond))
		one := taken{longest: dur, processor: cpu, sum: cpu}
		if dur > 50*time.Millisecond {
			one.over50 = 1
		}
		if dur > 100*time.Millisecond {
			one.over100 = 1
		}
		by[e.thread].add(one)
	}
	for thread, t := range by {
		if renders[thread] && t.sum > most.sum {
			most = *t
		}
	}
	return most
}
