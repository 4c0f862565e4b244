// The program storm is scratch.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

var (
	members = flag.Int("members", 100, "")
	items   = flag.Int("items", 10000, "")
	addr    = flag.String("addr", "", "real consul; empty: embedded")
	limit   = flag.Duration("limit", 4*time.Minute, "")
	noCheck = flag.Bool("nocheck", false, "")
	prof    = flag.String("prof", "", "")
	out     = flag.Duration("outage", 0, "")
)

type stat struct {
	n, fail, slow int
	total         time.Duration
	bytes         int64
}

type counter struct {
	mu   sync.Mutex
	kind map[string]*stat
}

func kindOf(r *http.Request) string {
	p := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	k := r.Method + " " + p[0]
	switch p[0] {
	case "kv":
		if len(p) > 3 {
			k += " " + p[3]
			if p[3] == "assignments" && len(p) == 6 && p[5] != "" {
				k += "/x"
			}
		}
		if r.URL.Query().Has("index") {
			k += " poll"
		}
	case "session":
		k += " " + p[1]
	case "agent":
		k += " " + strings.Join(p[1:min(3, len(p))], " ")
	}
	return k
}

type countingTransport struct {
	c  *counter
	rt http.RoundTripper
}

var down atomic.Bool

func (t countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	k := kindOf(r)
	begin := time.Now()
	var resp *http.Response
	var err error
	if down.Load() {
		err = &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("refused")}
	} else {
		resp, err = t.rt.RoundTrip(r)
	}
	took := time.Since(begin)
	t.c.mu.Lock()
	s := t.c.kind[k]
	if s == nil {
		s = &stat{}
		t.c.kind[k] = s
	}
	s.n++
	s.total += took
	if err != nil || resp.StatusCode >= 400 && resp.StatusCode != 404 {
		s.fail++
	}
	if took > time.Second {
		s.slow++
	}
	if resp != nil && resp.ContentLength > 0 {
		s.bytes += resp.ContentLength
	}
	t.c.mu.Unlock()
	return resp, err
}

type events struct {
	slog.Handler
	mu *sync.Mutex
	n  map[string]int
}

func (e events) Handle(_ context.Context, r slog.Record) error {
	e.mu.Lock()
	e.n[r.Message]++
	if e.n[r.Message] <= 2 && r.Level >= slog.LevelWarn {
		fmt.Fprint(os.Stderr, r.Message)
		r.Attrs(func(a slog.Attr) bool { fmt.Fprint(os.Stderr, " ", a); return true })
		fmt.Fprintln(os.Stderr)
	}
	e.mu.Unlock()
	return nil
}
func (e events) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (e events) WithAttrs([]slog.Attr) slog.Handler           { return e }
func (e events) WithGroup(string) slog.Handler                { return e }

func main() {
	flag.Parse()
	c := &counter{kind: map[string]*stat{}}
	service := fmt.Sprintf("storm-%d", time.Now().Unix())
	var conns, dials atomic.Int64
	var peak int64
	var s *devconsul.Server
	if *addr == "" {
		s = devconsul.New(devconsul.Config{})
	}
	client := func() *api.Client {
		if s != nil {
			return devconsul.ClientOver(countingTransport{c, s.RoundTripper()})
		}
		tr := api.DefaultConfig().Transport
		d := &net.Dialer{}
		tr.DialContext = func(ctx context.Context, n, a string) (net.Conn, error) {
			if down.Load() {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("refused")}
			}
			cn, err := d.DialContext(ctx, n, a)
			if err == nil {
				conns.Add(1)
				dials.Add(1)
				cn = &closing{Conn: cn, n: &conns, c: c}
			}
			return cn, err
		}
		cl, err := store.NewClient(&api.Config{Address: *addr, Transport: tr})
		if err != nil {
			panic(err)
		}
		return cl
	}
	admin := client()
	var keys []string
	for i := range *items {
		keys = append(keys, fmt.Sprintf("service/%s/workload/item_%06d", service, i))
	}
	for chunk := range slices.Chunk(keys, 100) {
		var ops api.TxnOps
		for _, k := range chunk {
			ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: k, Value: []byte("payload")}})
		}
		if ok, _, _, err := admin.Txn().Txn(ops, nil); err != nil || !ok {
			panic(err)
		}
	}
	c.kind = map[string]*stat{}
	ev := events{slog.DiscardHandler, &sync.Mutex{}, map[string]int{}}
	var running, starts atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	if *prof != "" {
		f, _ := os.Create(*prof)
		pprof.StartCPUProfile(f)
		defer pprof.StopCPUProfile()
	}
	begin := time.Now()
	for i := range *members {
		cfg := actors.Config{Service: service, ID: fmt.Sprintf("m%04d", i), Client: client(), Logger: slog.New(ev),
			Work: func(ctx context.Context, it actors.Item) error {
				running.Add(1)
				starts.Add(1)
				<-ctx.Done()
				running.Add(-1)
				return nil
			}}
		if *noCheck {
			cfg.CheckTTL = actors.NoCheck
		}
		m, err := actors.New(cfg)
		if err != nil {
			panic(err)
		}
		wg.Go(func() {
			if err := m.Run(ctx); err != nil {
				fmt.Println("member ended:", err)
			}
		})
	}
	wait := func(what string) {
		t0 := time.Now()
		last := time.Now()
		for running.Load() < int64(*items) && time.Since(t0) < *limit {
			time.Sleep(100 * time.Millisecond)
			peak = max(peak, conns.Load())
			if time.Since(last) > 10*time.Second {
				last = time.Now()
				ev.mu.Lock()
				fmt.Printf("  %5.1fs running %d conns %d %v\n", time.Since(t0).Seconds(), running.Load(), conns.Load(), ev.n)
				ev.mu.Unlock()
			}
		}
		fmt.Printf("%s: whole after %.1fs, running %d, starts %d, conns now %d peak %d dials %d\n", what, time.Since(t0).Seconds(), running.Load(), starts.Load(), conns.Load(), peak, dials.Load())
		report(c)
	}
	wait("start")
	_ = begin
	if *out > 0 {
		c.mu.Lock()
		c.kind = map[string]*stat{}
		c.mu.Unlock()
		down.Store(true)
		time.Sleep(*out)
		fmt.Println("back; running", running.Load())
		down.Store(false)
		wait("outage")
	}
	ev.mu.Lock()
	fmt.Println(ev.n)
	ev.mu.Unlock()
	c.mu.Lock()
	c.kind = map[string]*stat{}
	c.mu.Unlock()
	time.Sleep(10 * time.Second)
	fmt.Println("idle 10s, conns", conns.Load())
	report(c)
	cancel()
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
	}
}

type closing struct {
	net.Conn
	once sync.Once
	n    *atomic.Int64
	c    *counter
	kind string
	at   time.Time
}

func (c *closing) Write(p []byte) (int, error) {
	if down.Load() {
		c.Close()
		return 0, fmt.Errorf("cut")
	}
	line, _, _ := strings.Cut(string(p[:min(len(p), 500)]), "\r\n")
	if w := strings.Split(line, " "); len(w) == 3 && strings.HasPrefix(w[2], "HTTP/") {
		if r, err := http.NewRequest(w[0], w[1], nil); err == nil {
			c.kind, c.at = kindOf(r), time.Now()
		}
	}
	return c.Conn.Write(p)
}

func (c *closing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if down.Load() {
		c.Close()
		return 0, fmt.Errorf("cut")
	}
	if c.kind != "" {
		took := time.Since(c.at)
		c.c.mu.Lock()
		s := c.c.kind[c.kind]
		if s == nil {
			s = &stat{}
			c.c.kind[c.kind] = s
		}
		s.n++
		s.total += took
		if err != nil || !strings.HasPrefix(string(p[:min(n, 12)]), "HTTP/1.1 200") && !strings.HasPrefix(string(p[:min(n, 12)]), "HTTP/1.1 404") {
			s.fail++
		}
		if took > time.Second {
			s.slow++
		}
		c.c.mu.Unlock()
		c.kind = ""
	}
	return n, err
}

func (c *closing) Close() error {
	c.once.Do(func() { c.n.Add(-1) })
	return c.Conn.Close()
}

func report(c *counter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	total := 0
	for k, s := range c.kind {
		names = append(names, k)
		total += s.n
	}
	slices.SortFunc(names, func(a, b string) int { return c.kind[b].n - c.kind[a].n })
	fmt.Printf("  %d requests, %.1f per member\n", total, float64(total)/float64(*members))
	for _, k := range names {
		s := c.kind[k]
		fmt.Printf("  %8d %6.1f/m  fail %6d  slow %6d  mean %8s  %6.1f MB  %s\n", s.n, float64(s.n)/float64(*members), s.fail, s.slow, (s.total / time.Duration(s.n)).Round(10*time.Microsecond), float64(s.bytes)/1e6, k)
	}
}
