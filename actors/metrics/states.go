package metrics

import (
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/supervisor"
	"github.com/prometheus/client_golang/prometheus"
)

// Options are settings of [Metrics.Collector]. The zero value is usable.
type Options struct {
	// Process is the supervision tree that the member is a part of. Its actors are counted along
	// with the member's. It may return nil. Default: none.
	Process func() *supervisor.Supervisor
	// OutputLost counts lines of the work's output that could not be written. Default: that is not
	// shown.
	OutputLost func() uint64
}

// descriptions are those of what is read from states.
var descriptions []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	descriptions = append(descriptions, d)
	return d
}

var (
	buildInfo = describe("coordd_build_info",
		"1, with the version of the member and of the Go that built it.", "version", "goversion")
	lease = describe("coordd_lease_seconds",
		"The lease that begins with each renewal, as it is set.")
	leaseLeft = describe("coordd_lease_remaining_seconds",
		"What is left of this member's lease: 0 when it is over or there is no session.")
	sessions = describe("coordd_sessions_total",
		"Sessions opened. Each one after the first stands for a session that was lost.")
	phase = describe("coordd_member_phase",
		"1 for the phase of this member's own record in Consul, 0 for the others.", "phase")
	memberItems = describe("coordd_member_items",
		"Items that are assigned to this member, by what their work does.", "state")
	memberAssigned = describe("coordd_member_assigned_items",
		"Items that the leader wants this member to run.")
	workRestarts = describe("coordd_work_restarts_total",
		"Times that the command or function of an item ended by itself and was started again.")
	actorRestarts = describe("coordd_actor_restarts_total",
		"Restarts of coordd's own actors; those below a supervisor are counted as that.", "actor")
	outputLost = describe("coordd_output_lost_lines_total",
		"Lines that commands wrote and that are missing: they could not be written.")
	logDropped = describe("coordd_log_dropped_total",
		"Log records and lines of the process that were dropped because nobody read them in time.")
	role = describe("coordd_leadership_role",
		"1 for this member's part in the leadership, 0 for the others.", "role")

	// These only while it leads.
	epoch = describe("coordd_leader_epoch",
		"The epoch that guards the leader's writes.")
	members = describe("coordd_members",
		"Members as the leader sees them, by state: lost ones have items and no record.", "state")
	items = describe("coordd_items",
		"Items of the workload as the leader sees them, by state.", "state")
	shareMax = describe("coordd_share_max_weight",
		"The most weight that a member in the state ready holds.")
	shareMin = describe("coordd_share_min_weight",
		"The least weight that a member in the state ready holds.")
	excess = describe("coordd_excess_weight",
		"Weight that members hold above what the planner gives them: the imbalance. Absent while "+
			"planning is stopped.")
	stopped = describe("coordd_planning_stopped",
		"1 while the leader plans nothing, because of its brake or of an operator's freeze.", "why")
)

// states reads one member.
type states struct {
	member     *actors.Coordinator
	process    func() *supervisor.Supervisor
	outputLost func() uint64 // nil: not shown
	own        []string      // the member's actors

	once     sync.Once
	siblings []string // the process's actors
}

func newStates(c *actors.Coordinator, o Options) *states {
	s := &states{member: c, process: o.Process, outputLost: o.OutputLost}
	if s.process == nil {
		s.process = func() *supervisor.Supervisor { return nil }
	}
	s.own = names(c.Report())
	return s
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- metric(d, prometheus.GaugeValue, v, labels)
}

func counter(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- metric(d, prometheus.CounterValue, v, labels)
}

// metric panics over a label that is no UTF-8, and in a goroutine of Prometheus' own: some labels
// are what a host calls its version and its actors.
func metric(d *prometheus.Desc, kind prometheus.ValueType, v float64,
	labels []string) prometheus.Metric {
	for i, label := range labels {
		labels[i] = shownAs(label)
	}
	return prometheus.MustNewConstMetric(d, kind, v, labels...)
}

func shownAs(label string) string { return strings.ToValidUTF8(label, "\uFFFD") }

// oneOf shows which of several states it is.
func oneOf(out chan<- prometheus.Metric, d *prometheus.Desc, is string, all ...string) {
	for _, state := range all {
		v := 0.0
		if state == is {
			v = 1
		}
		gauge(out, d, v, state)
	}
}

// byState shows how many there are of each state.
func byState[S ~string](out chan<- prometheus.Metric, d *prometheus.Desc, n map[S]int, all []S) {
	for _, state := range all {
		gauge(out, d, float64(n[state]), string(state))
	}
}

func (s *states) collect(out chan<- prometheus.Metric) {
	c, now := s.member, time.Now()
	set := c.Settings()
	gauge(out, buildInfo, 1, set.Version, runtime.Version())
	session := c.Session().Get()
	left := max(0, session.Lease.Left(now))
	if session.ID == "" {
		left = 0
	}
	gauge(out, lease, set.Lease.Seconds())
	gauge(out, leaseLeft, left.Seconds())
	counter(out, sessions, float64(session.Count))
	oneOf(out, phase, c.Membership().Get().Phase.String(), phases...)
	byState(out, memberItems, c.OwnItems().States, holdingStates)
	gauge(out, memberAssigned, float64(c.Assignments().Get().Items.Len()))
	counter(out, logDropped, float64(c.LogRecordsDropped()))
	if s.outputLost != nil {
		counter(out, outputLost, float64(s.outputLost()))
	}
	s.restarts(out)

	lead := c.Leadership().Get()
	if lead.Role == facts.Leading && left == 0 {
		lead.Role = facts.Uncertain // its actor may hang
	}
	oneOf(out, role, lead.Role.String(), roles...)
	if lead.Role == facts.Leading {
		gauge(out, epoch, float64(lead.Epoch))
		if plan := c.Distribution().Get(); plan.Term == lead.Term {
			s.plan(out, plan)
		}
	}
}

// plan shows what the leader knows, once it has planned in its term.
func (s *states) plan(out chan<- prometheus.Metric, plan facts.Distribution) {
	count, ready := memberCounts(s.member.Members().Get(), s.member.Control().Get(), plan)
	byState(out, members, count, memberStates)
	byState(out, items, itemCounts(plan), itemStates)
	var least, most uint64
	for i, id := range ready {
		share, _ := plan.Shares.Get(id)
		if most = max(most, share.Weight); i == 0 || share.Weight < least {
			least = share.Weight
		}
	}
	gauge(out, shareMax, float64(most))
	gauge(out, shareMin, float64(least))
	why := ""
	switch {
	case plan.Frozen:
		why = "freeze"
	case plan.Brake != "":
		why = "brake"
	default:
		gauge(out, excess, float64(plan.Excess))
	}
	oneOf(out, stopped, why, "brake", "freeze")
}
