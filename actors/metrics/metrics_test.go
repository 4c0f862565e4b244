package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/actors/metrics"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// world is a cluster whose members are all shown by one registry.
type world struct {
	*testing.T
	*actorstest.Cluster
	registry *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	return &world{t, actorstest.New(t), prometheus.NewPedanticRegistry()}
}

func work(ctx context.Context, item actors.Item) error {
	if strings.HasPrefix(item.ID, "loop") {
		return errors.New("it fails")
	}
	<-ctx.Done()
	if item.ID == "slow" {
		time.Sleep(time.Minute)
	}
	return nil
}

func (w *world) start(id string) *actorstest.Member {
	w.Helper()
	return w.shown(id, "v1.2.3", metrics.Options{OutputLost: func() uint64 { return 4 }})
}

func (w *world) shown(id, version string, o metrics.Options) *actorstest.Member {
	w.Helper()
	m := metrics.New()
	member := w.Start(id, work, func(c *actors.Config) {
		c.Observer, c.Version, c.StopTimeout = m, version, 2*time.Minute
	})
	w.registry.MustRegister(m.Collector(member.Coordinator(), o))
	return member
}

// families are all metrics now.
func (w *world) families() map[string]*dto.MetricFamily {
	w.Helper()
	all, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	by := map[string]*dto.MetricFamily{}
	for _, f := range all {
		by[f.GetName()] = f
	}
	return by
}

// sum adds up the metrics of a name that have all the labels given: name=value.
func (w *world) sum(name string, labels ...string) (sum float64, series int) {
	w.Helper()
	for _, m := range w.families()[name].GetMetric() {
		have := "," + labelsOf(m) + ","
		if !every(labels, func(l string) bool { return strings.Contains(have, ","+l+",") }) {
			continue
		}
		series++
		switch {
		case m.Gauge != nil:
			sum += m.Gauge.GetValue()
		case m.Counter != nil:
			sum += m.Counter.GetValue()
		case m.Histogram != nil:
			sum += float64(m.Histogram.GetSampleCount())
		}
	}
	return sum, series
}

func labelsOf(m *dto.Metric) string {
	var all []string
	for _, l := range m.GetLabel() {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	return strings.Join(all, ",")
}

func every[T any](all []T, is func(T) bool) bool {
	for _, x := range all {
		if !is(x) {
			return false
		}
	}
	return true
}

// want checks one sum.
func (w *world) want(want float64, name string, labels ...string) {
	w.Helper()
	if got, _ := w.sum(name, labels...); got != want {
		w.Errorf("%s%v is %v, want %v", name, labels, got, want)
	}
}

func (w *world) await(want float64, name string, labels ...string) {
	w.Helper()
	w.Await(2*time.Minute, fmt.Sprintf("%s%v to be %v", name, labels, want), func() bool {
		got, n := w.sum(name, labels...)
		return n > 0 && got == want
	})
}

func bubble(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

func TestATakeOverShows(t *testing.T) {
	bubble(t, func(w *world) {
		w.AddWork("w1", "w2", "w3", "w4")
		w.start("a")
		w.await(4, "coordd_items", "state=owned")
		b := w.start("b")
		w.await(2, "coordd_member_items", "member=b", "state=running")
		w.await(0, "coordd_excess_weight")
		w.want(1, "coordd_leadership_role", "role=leading")
		w.want(1, "coordd_leadership_role", "role=leading", "member=a")
		w.want(2, "coordd_members", "state=ready")
		w.want(2, "coordd_share_max_weight")
		w.want(2, "coordd_share_min_weight")
		w.want(0, "coordd_takeover_duration_seconds")
		w.want(2, "coordd_assignments_total", "action=revoked", "reason=balance")
		w.want(6, "coordd_assignments_total", "action=granted", "reason=new")
		b.Lose()
		w.await(1, "coordd_members", "state=lost")
		w.want(2, "coordd_items", "state=waiting")
		w.await(4, "coordd_member_items", "member=a", "state=running")
		w.want(0, "coordd_members", "state=lost")
		w.want(2, "coordd_takeover_duration_seconds")
		w.want(2, "coordd_assignments_total", "action=taken-over")
		for _, m := range w.families()["coordd_takeover_duration_seconds"].GetMetric() {
			if n := m.Histogram.GetSampleCount(); n > 0 {
				if each := m.Histogram.GetSampleSum() / float64(n); each < 9 || each > 12 {
					w.Errorf("a take-over after %v s, with a lease of 10 s", each)
				}
			}
		}
	})
}

func TestWhatOnlyALeaderKnowsIsAbsentElsewhere(t *testing.T) {
	bubble(t, func(w *world) {
		w.AddWork("w1", "w2")
		a := w.start("a")
		w.await(2, "coordd_items", "state=owned")
		w.start("b")
		w.await(1, "coordd_member_items", "member=b", "state=running")
		for _, name := range []string{"coordd_items", "coordd_members", "coordd_leader_epoch",
			"coordd_excess_weight", "coordd_share_max_weight", "coordd_planning_stopped"} {
			if _, n := w.sum(name, "member=b"); n > 0 {
				w.Errorf("%s at a follower", name)
			}
		}
		a.CutOff()
		time.Sleep(11 * time.Second) // longer than the lease
		w.want(0, "coordd_leadership_role", "member=a", "role=leading")
		w.want(0, "coordd_lease_remaining_seconds", "member=a")
		if _, n := w.sum("coordd_items", "member=a"); n > 0 {
			w.Error("a leader without a lease says what the items do")
		}
		w.await(1, "coordd_leadership_role", "member=b", "role=leading")
		w.await(2, "coordd_member_items", "member=b", "state=running")
		if n, _ := w.sum("coordd_consul_calls_total", "member=a", "result=ok"); n == 0 {
			w.Error("no call of a's is counted")
		}
		if n, _ := w.sum("coordd_renewals_total", "member=a"); n < 4 {
			w.Errorf("%v renewals of a's", n)
		}
		if ok, _ := w.sum("coordd_renewals_total", "member=a", "result=ok"); ok == 0 {
			w.Error("no renewal of a's succeeded")
		} else {
			w.want(ok, "coordd_renewal_duration_seconds", "member=a")
		}
		if open, _ := w.sum("coordd_consul_polls_open", "member=b"); open < 5 {
			w.Errorf("a leader has %v long polls open", open)
		}
		a.Mend()
	})
}

func TestRestartsOfWorkAreCountedAndOutliveTheItem(t *testing.T) {
	bubble(t, func(w *world) {
		w.AddWork("loop", "w1")
		w.start("a")
		w.Await(time.Minute, "five restarts", func() bool {
			n, _ := w.sum("coordd_work_restarts_total")
			return n >= 5
		})
		if err := w.Operator().RemoveWork(w.Context(), "loop"); err != nil {
			w.Fatal(err)
		}
		w.await(1, "coordd_member_items")
		n, _ := w.sum("coordd_work_restarts_total")
		if time.Sleep(time.Minute); n < 5 {
			w.Errorf("%v restarts once the item is gone", n)
		}
		w.want(n, "coordd_work_restarts_total")
		w.want(0, "coordd_actor_restarts_total")
		if _, known := w.sum("coordd_actor_restarts_total", "actor=session-renewer"); known != 1 {
			w.Error("an actor that never failed has no series")
		}
	})
}

func TestOperatorsOrdersShow(t *testing.T) {
	bubble(t, func(w *world) {
		w.AddWork("w1", "w2")
		w.start("a")
		w.start("b")
		w.await(1, "coordd_member_items", "member=b", "state=running")
		op, ctx := w.Operator(), w.Context()
		for _, err := range []error{op.Pin(ctx, "w1", "nobody"), op.Drain(ctx, "b")} {
			if err != nil {
				w.Fatal(err)
			}
		}
		w.await(1, "coordd_members", "state=drained")
		if err := op.Freeze(ctx); err != nil {
			w.Fatal(err)
		}
		w.await(1, "coordd_planning_stopped", "why=freeze")
		w.want(0, "coordd_planning_stopped", "why=brake")
		if _, n := w.sum("coordd_excess_weight"); n > 0 {
			w.Error("the imbalance is said to be known while there is no plan")
		}
		if err := op.Thaw(ctx); err != nil {
			w.Fatal(err)
		}
		w.await(0, "coordd_planning_stopped")
	})
}

func TestTheNumberOfSeriesDoesNotGrowWithTheWorkload(t *testing.T) {
	series := func(n int) (lines map[string]bool) {
		lines = map[string]bool{}
		bubble(t, func(w *world) {
			var ids []string
			for i := range n {
				ids = append(ids, fmt.Sprintf("loop-%d", i))
			}
			w.AddWork(ids...)
			w.start("a")
			w.await(float64(n), "coordd_items", "state=owned")
			time.Sleep(30 * time.Second)
			for name, f := range w.families() {
				for _, m := range f.GetMetric() {
					lines[name+"{"+labelsOf(m)+"}"] = true
				}
			}
		})
		return lines
	}
	few, many := series(1), series(100)
	for line := range many {
		if !few[line] {
			t.Errorf("only with more items: %s", line)
		}
	}
}
