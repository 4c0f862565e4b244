package dispatch_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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
		Grant: 1})
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
