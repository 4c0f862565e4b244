// Package metrics shows a member to Prometheus:
//
//	m := metrics.New()
//	c, err := actors.New(actors.Config{ /* … */ Observer: m})
//	…
//	prometheus.MustRegister(m.Collector(c, metrics.Options{}))
//
// `coordd run --http` serves the same at /metrics. docs/metrics.md names every metric and its
// labels, docs/prometheus/ has alert rules and a dashboard.
//
// Guarantees:
//
//  1. Every metric has the labels service and member. No id of an item is a label, and no other
//     label has more than some two dozen values: the number of series does not grow with the
//     workload.
//  2. A scrape reads states that are published anyway. It asks Consul nothing, waits for no actor,
//     and nobody waits for it.
//  3. A counter does not fall while the process lives, also when another member leads.
//  4. What a member knows only as the leader it shows only while it leads, and while its lease
//     holds: a metric without such a member is absent, not old.
//
// Not guaranteed: that the metrics of one scrape are of one moment.
//
// The rest of coordd does not import Prometheus: a host that does not use this package links
// nothing of it.
package metrics
