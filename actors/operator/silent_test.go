package operator_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/hashicorp/consul/api"
)

// registers an instance at the agent, with a check that runs out 3 s after the last report.
func (d *desk) registers(instance string) {
	d.t.Helper()
	d.must(d.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{ID: instance,
		Name: "demo", Check: &api.AgentServiceCheck{CheckID: "service:" + instance, TTL: "3s",
			Status: api.HealthPassing}}))
}

// reports to the check of an instance, as a member does.
func (d *desk) reports(instance, output string) time.Time {
	d.t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	d.must(d.consul.Client().Agent().UpdateTTL("service:"+instance,
		strings.Replace(output, "NOW", now.Format(time.RFC3339), 1), api.HealthPassing))
	return now
}

// A process that is frozen, or whose actors hang, reports no more to its check: of one whose
// session is not bound to that it is said while it is registered, of the others once it is gone.
func TestSinceWhenAMemberIsSilentIsSaid(t *testing.T) {
	const output = "NOW: 1 items run; the lease has 9s left"
	members := map[string]string{"n1": "aaa", "n2": "bbb", "n3": "ccc", "n4": "ddd", "n5": ""}
	operate(t, func(t *testing.T, d *desk) {
		d.lock("leader", "n1")
		d.put("workload/w", "")
		d.put("assignments/gone/w", `{"s":"own"}`)
		d.put("acks/gone", `{"n":3,"sid":"0d8f3a2e-0000-4000-8000-000000000000",`+
			`"by":{"instance":"eee"}}`)
		d.registers("demo-gone-eee")
		goneAt := d.reports("demo-gone-eee", output)
		for id, instance := range members {
			d.lock("members/"+id, `{"status":"alive","process":{"instance":"`+instance+`"}}`)
			d.registers("demo-" + id + "-" + instance)
		}
		d.registers("demo-n1-old") // of a former process of it
		time.Sleep(1500 * time.Millisecond)
		silentAt := d.reports("demo-n2-bbb", output)
		for instance, output := range map[string]string{"demo-n3-ccc": "fine", "demo-n4-ddd": "",
			"demo-n1-old": output, "demo-n5-": output} {
			d.reports(instance, output)
		}
		for range 4 {
			d.reports("demo-n1-aaa", output)
			time.Sleep(time.Second)
		}
		status, err := d.op.Status(t.Context())
		d.must(err)
		for _, m := range append(status.Members, status.Absent...) {
			want := map[string]time.Time{"n2": silentAt, "gone": goneAt}[m.ID]
			if !m.SilentSince.Equal(want) {
				t.Errorf("%s is silent since %v, want %v", m.ID, m.SilentSince, want)
			}
		}
		if len(status.Members) != 5 || len(status.Absent) != 1 {
			t.Errorf("members are %+v, and %+v", status.Members, status.Absent)
		}
		silent := func(s operator.Status) (texts []string) {
			for _, p := range s.Problems {
				if p.Kind == "silent-member" {
					texts = append(texts, p.Text)
				}
			}
			return texts
		}
		want := "n2 is silent since " + silentAt.Format("15:04:05") + " UTC: "
		if texts := silent(status); len(texts) != 1 || !strings.HasPrefix(texts[0], want) {
			t.Errorf("wrong is %q, want one that begins with %q", texts, want)
		}

		// Its requests go to several agents, and another one hears it.
		err = d.consul.AddAgent("other").Client().Agent().ServiceRegister(
			&api.AgentServiceRegistration{ID: "demo-n2-bbb", Name: "demo",
				Check: &api.AgentServiceCheck{CheckID: "service:demo-n2-bbb", TTL: "1m",
					Status: api.HealthPassing}})
		d.must(err)
		status, err = d.op.Status(t.Context())
		d.must(err)
		if texts := silent(status); len(texts) > 0 {
			t.Errorf("it is heard elsewhere, and wrong is %q", texts)
		}
	})
}

// A silent member may have hung with its work, or it lives and only its reports are lost: what it
// told last is no word about now.
func TestOfASilentMembersItemsItIsNotSaidThatTheyRun(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		d.lock("leader", "n1")
		for _, id := range []string{"n1", "n2"} {
			d.lock("members/"+id, `{"status":"alive","process":{"instance":"x"}}`)
			d.registers("demo-" + id + "-x")
		}
		for item, key := range map[string]string{"a": "n1/a", "b": "n2/b", "c": "n2/c", "d": "n2/d",
			"e": "n2/e"} {
			d.put("workload/"+item, "")
			d.put("assignments/"+key, `{"s":"own"}`)
		}
		d.put("assignments/n2/e", `{"s":"rel"}`)
		d.told("n1", map[string]int{"running": 1})
		d.told("n2", map[string]int{"running": 1, "starting": 1, "crash-looping": 1, "stopping": 1},
			protocol.WorkReport{ID: "c", State: "crash-looping", Restarts: 7,
				Exit: "exit status 1"})
		at := d.reports("demo-n2-x", "NOW: 4 items run; the lease has 9s left")
		for range 4 {
			d.reports("demo-n1-x", "NOW: 1 items run; the lease has 9s left")
			time.Sleep(time.Second)
		}
		status, items, err := d.op.Items(t.Context())
		d.must(err)
		since := "n2 is silent since " + at.Format("15:04:05") + " UTC"
		for _, i := range items {
			want := operator.ItemStatus{ID: i.ID, State: operator.ItemOwned, Member: "n2", Since: at,
				Cause: operator.CauseSilent, Why: since + ": what its work does is not known"}
			switch i.ID {
			case "a":
				want = operator.ItemStatus{ID: "a", State: operator.ItemRunning, Member: "n1"}
			case "c":
				want.Restarts, want.LastExit = 7, "exit status 1"
			case "e": // is what the leader has said
				want = operator.ItemStatus{ID: "e", State: operator.ItemStopping, Member: "n2",
					Why: "it is on its way to another member"}
			}
			i.Token = 0
			if !reflect.DeepEqual(i, want) {
				t.Errorf("got  %+v\nwant %+v", i, want)
			}
		}
		if got, want := fmt.Sprint(status.Work.States, status.Members[1].States),
			"map[owned:3 running:1 stopping:1] map[owned:3 stopping:1]"; got != want {
			t.Errorf("the items are counted as %s, want %s", got, want)
		}
		if got, want := status.Problem(), since+": its health check has run out, and its session "+
			"has not; its items (4) stay with it until that ends, and what their work does is not "+
			"known"; got != want {
			t.Errorf("wrong is %q, want %q", got, want)
		}
		why, err := d.op.Explain(t.Context(), "b")
		d.must(err)
		want := "n2 is heard again, or its session ends and"
		if !strings.HasPrefix(why.Next, want) {
			t.Errorf("what it takes is %q, want %q …", why.Next, want)
		}
	})
}

// Of a member that is gone it is said since when the leader has missed it, if the leader has noted
// that.
func TestSinceWhenALostMemberIsMissedIsSaid(t *testing.T) {
	for waited, said := range map[time.Duration]bool{3 * time.Second: true, -1: false} {
		operate(t, func(t *testing.T, d *desk) {
			d.gone(goneAck, waited, 10*time.Second)
			status, err := d.op.Status(t.Context())
			d.must(err)
			if len(status.Absent) != 1 {
				t.Fatalf("absent are %+v", status.Absent)
			}
			since := status.Absent[0].Since
			if ago := time.Since(since); said && (ago-waited).Abs() > time.Second ||
				!said && !since.IsZero() {
				t.Errorf("it is missed since %v, which is %v ago; want %v", since, ago, waited)
			}
		})
	}
}
