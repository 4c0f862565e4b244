package dispatch_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// rounds sends so many requests one after the other and returns how long each took.
func rounds(b *testing.B, client *http.Client, url string, n int) []time.Duration {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		resp, err := client.Post(url, "text/plain",
			strings.NewReader("a body of some forty bytes, give or take"))
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if took[i] = time.Since(began); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
	}
	return took
}

func sum(all []time.Duration) (total time.Duration) {
	for _, d := range all {
		total += d
	}
	return total
}

func newBenched(b *testing.B, locator dispatch.Locator) (front *httptest.Server,
	client *http.Client) {
	d, err := dispatch.New(dispatch.Config{Locator: locator,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Timeout: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	front = httptest.NewServer(d)
	transport := &http.Transport{MaxIdleConnsPerHost: 512}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		front.Close()
		d.CloseIdleConnections()
	})
	return front, &http.Client{Transport: transport}
}

// BenchmarkDispatch sends small POSTs one after the other to a service directly, through a bare
// httputil.ReverseProxy and through the dispatcher, in interleaved rounds.
func BenchmarkDispatch(b *testing.B) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	b.Cleanup(service.Close)
	target, _ := url.Parse(service.URL)
	through := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	bare := httptest.NewServer(&httputil.ReverseProxy{Transport: through,
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target); p.SetXForwarded() }})
	b.Cleanup(func() { bare.Close(); through.CloseIdleConnections() })
	table := newTable()
	table.set("a", routing.Location{Member: "n1", Address: service.Listener.Addr().String(),
		Token: 1})
	front, client := newBenched(b, table)
	var straight, proxied, dispatched time.Duration
	const burst = 200
	n := 0
	for b.Loop() {
		straight += sum(rounds(b, client, service.URL+"/a/x", burst))
		proxied += sum(rounds(b, client, bare.URL+"/a/x", burst))
		dispatched += sum(rounds(b, client, front.URL+"/a/x", burst))
		n += burst
	}
	b.ReportMetric(float64(dispatched.Microseconds())/float64(n), "µs/request")
	b.ReportMetric(float64(dispatched)/float64(proxied), "dispatched/proxied")
	b.ReportMetric(float64(proxied)/float64(straight), "proxied/straight")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBesideASlowMember sends requests to a member while all places of another one are taken
// by requests that it does not answer, and in interleaved rounds without it.
func BenchmarkBesideASlowMember(b *testing.B) {
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-release
	}))
	b.Cleanup(hanging.Close)
	quick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "here")
	}))
	b.Cleanup(quick.Close)
	table := newTable()
	table.set("slow", routing.Location{Member: "n1", Address: hanging.Listener.Addr().String(),
		Token: 1})
	table.set("quick", routing.Location{Member: "n2", Address: quick.Listener.Addr().String(),
		Token: 1})
	alone, clientAlone := newBenched(b, table)
	beside, clientBeside := newBenched(b, table)
	ended := make(chan struct{})
	const stuck = dispatch.DefaultPerMember
	for range stuck {
		go func() {
			defer func() { ended <- struct{}{} }()
			if resp, err := clientBeside.Get(beside.URL + "/slow/x"); err == nil {
				resp.Body.Close()
			}
		}()
	}
	for refused := false; !refused; { // until all its places are taken
		ctx := b.Context()
		r, _ := http.NewRequestWithContext(ctx, "GET", beside.URL+"/slow/x", nil)
		resp, err := (&http.Client{Transport: clientBeside.Transport,
			Timeout: 100 * time.Millisecond}).Do(r)
		if err == nil {
			refused = resp.Header.Get(dispatch.HeaderReason) == dispatch.ReasonBusy
			resp.Body.Close()
		}
	}
	var without, with []time.Duration
	for b.Loop() {
		without = append(without, rounds(b, clientAlone, alone.URL+"/quick/x", 200)...)
		with = append(with, rounds(b, clientBeside, beside.URL+"/quick/x", 200)...)
	}
	close(release)
	for range stuck {
		<-ended
	}
	at := func(all []time.Duration, share float64) float64 {
		slices.Sort(all)
		return float64(all[int(share*float64(len(all)-1))])
	}
	b.ReportMetric(at(with, 0.5)/at(without, 0.5), "median-with/without")
	b.ReportMetric(at(with, 0.99)/at(without, 0.99), "p99-with/without")
	b.ReportMetric(0, "ns/op")
}
