package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// mostScrapes is how many scrapes are answered at one time. Others get 503.
const mostScrapes = 8

// Handler serves the collectors beside those of Go and of the process, with a registry of its own,
// for web.Options.Metrics. Two collectors of one member are a mistake, and panic.
func Handler(all ...Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(all...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes})
}
