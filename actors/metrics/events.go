package metrics

import (
	"fmt"
	"sync/atomic"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts the events of one member. Make one with [New], give it to the member as
// actors.Config.Observer, and register what [Metrics.Collector] returns.
type Metrics struct {
	polls atomic.Int64

	renewals    *prometheus.CounterVec
	renewal     prometheus.Histogram
	assignments *prometheus.CounterVec
	takeover    prometheus.Histogram
	calls       *prometheus.CounterVec
	call        *prometheus.HistogramVec
	pollsOpen   prometheus.GaugeFunc
}

// The buckets go from what Consul takes on a quiet day to the leases that people set.
var (
	callBuckets     = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	takeoverBuckets = []float64{.25, .5, 1, 2.5, 5, 7.5, 10, 15, 20, 30, 60, 120, 300}
)

// New returns the counters of one member, all zero.
func New() *Metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	times := func(name string, buckets []float64, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	}
	m := &Metrics{
		renewals: counters("coordd_renewals_total", "Renewals of this member's session, by result.",
			"result"),
		renewal: prometheus.NewHistogram(times("coordd_renewal_duration_seconds", callBuckets,
			"Time from a renewal's first request to Consul's confirmation.")),
		assignments: counters("coordd_assignments_total",
			"Assignments that this member has written as the leader, by action and reason.",
			"action", "reason"),
		takeover: prometheus.NewHistogram(times("coordd_takeover_duration_seconds",
			takeoverBuckets, "Time from a lost member's record being missed to each of its items "+
				"being given to another member.")),
		calls: counters("coordd_consul_calls_total",
			"Calls to Consul that came back, by kind and result.", "kind", "result"),
		call: prometheus.NewHistogramVec(times("coordd_consul_call_duration_seconds", callBuckets,
			"Duration of calls to Consul, by kind; long polls are left out."), []string{"kind"}),
	}
	m.pollsOpen = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coordd_consul_polls_open",
		Help: "Long polls that wait at Consul for a change.",
	}, func() float64 { return float64(m.polls.Load()) })
	// A counter that begins above zero hides its first step from rate() and increase().
	m.renewals.WithLabelValues(facts.ResultOK)
	return m
}

// Observe is for the member's actors: see [actors.Observer].
func (m *Metrics) Observe(e actors.Observation) {
	switch e := e.(type) {
	case facts.PollOpened:
		m.polls.Add(1)
	case facts.CallEnded:
		m.calls.WithLabelValues(e.Kind, e.Result).Inc()
		if e.Kind == facts.KindPoll {
			m.polls.Add(-1)
		} else {
			m.call.WithLabelValues(e.Kind).Observe(e.Took.Seconds())
		}
	case facts.RenewalEnded:
		m.renewals.WithLabelValues(e.Result).Inc()
		if e.Result == facts.ResultOK {
			m.renewal.Observe(e.Took.Seconds())
		}
	case facts.Assigned:
		m.assignments.WithLabelValues(e.Action, e.Reason).Add(float64(e.Items))
	case facts.TakenOver:
		m.takeover.Observe(e.After.Seconds())
	}
}

// Collector is a [prometheus.Collector].
type Collector = prometheus.Collector

// Collector shows the member c, whose Observer m is. It is registered once, with any registry.
func (m *Metrics) Collector(c *actors.Coordinator, o Options) Collector {
	labels := prometheus.Labels{"service": c.Settings().Service, "member": c.ID()}
	return prometheus.WrapCollectorWith(labels, &collector{events: m, states: newStates(c, o)})
}

// collector is all of one member.
type collector struct {
	events *Metrics
	states *states
}

func (c *collector) counted() []prometheus.Collector {
	m := c.events
	return []prometheus.Collector{m.renewals, m.renewal, m.assignments, m.takeover, m.calls, m.call,
		m.pollsOpen}
}

// Describe is that of a [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, each := range c.counted() {
		each.Describe(out)
	}
	for _, d := range descriptions {
		out <- d
	}
}

// Collect is that of a [prometheus.Collector]. A host's function that panics fails the scrape: no
// handler recovers in Prometheus' goroutine.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	defer func() {
		if p := recover(); p != nil {
			out <- prometheus.NewInvalidMetric(buildInfo, fmt.Errorf("a panic (%T)", p))
		}
	}()
	for _, each := range c.counted() {
		each.Collect(out)
	}
	c.states.collect(out)
}
