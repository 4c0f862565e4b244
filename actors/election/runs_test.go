package election

import (
	"fmt"
	"testing"
	"time"
)

// Each look is a leader's at the record, at a time of its own clock, in minutes, and the run that
// it begins. The run ends at once, with that error.
func TestWhatALeaderDoesAboutItsRuns(t *testing.T) {
	zero := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	ends, fails, dies := "", "exit code 1", "dies"
	for name, c := range map[string]struct {
		schedule string
		looks    []look
	}{
		"the first run is at once, and then one in each period": {"@every 1h", []look{
			{at: 10, end: ends, want: "0"}, {at: 59, want: ""}, {at: 60, want: "60"}}},
		"cron waits for its first time, whoever leads by then": {"0 * * * *", []look{
			{at: 10}, {at: 59}, {at: 61, want: "60"}}},
		"only the newest missed period is run": {"0 * * * *", []look{
			{at: 10}, {at: 190, want: "180, missed 2 from 60"}}},
		"a clock that is behind runs nothing again": {"@every 1h", []look{
			{at: 121, want: "120"}, {at: 70}, {at: 120},
			{at: 180, want: "180"}}},
		"a clock that is ahead runs the next period once": {"@every 1h", []look{
			{at: 59, want: "0"}, {at: 60, want: "60"}, {at: 10},
			{at: 60}, {at: 119}, {at: 120, want: "120"}}},
		"an order after a clock that was far ahead begins anew": {"@every 1h", []look{
			{at: 60000, want: "60000"}, {at: 60}, {at: 61, order: "o", want: "60"},
			{at: 62}, {at: 120, want: "120"}}},
		"an order is the run of a period that had none, and of no other": {"@every 1h", []look{
			{at: 1, want: "0"}, {at: 2, order: "o", want: "0"},
			{at: 60, order: "p", want: "60"}, {at: 61}}},
		"a failed run is not run again": {"@every 1h", []look{
			{at: 1, end: fails, want: "0"}, {at: 30}, {at: 60, want: "60"}}},
		"nor is one whose leader dies": {"@every 1h", []look{
			{at: 1, end: dies, want: "0"}, {at: 30}, {at: 60, want: "60"}}},
	} {
		schedule, err := ParseSchedule(c.schedule)
		if err != nil {
			t.Fatal(err)
		}
		var r Runs
		for i, l := range c.looks {
			now := zero.Add(time.Duration(l.at) * time.Minute)
			id, got := fmt.Sprint(i), ""
			cfg := Config{Now: func() time.Time { return now }}
			d := rounds{shell: &shell{Election: &Election{cfg: cfg}}, schedule: schedule}
			if r.Asked = l.order; d.due(&r, id) && r.Last.ID == id {
				got = fmt.Sprint(r.Last.Period.Sub(zero).Minutes())
				if r.Missed > 0 {
					got += fmt.Sprintf(", missed %d from %v", r.Missed,
						r.MissedFrom.Sub(zero).Minutes())
				}
				if l.end != dies {
					r.Last.Ended, r.Last.Err = now, l.end
				}
			}
			if got != l.want {
				t.Errorf("%s: at %d it runs %q, want %q", name, l.at, got, l.want)
			}
			if again := r; d.due(&again, id) && again.Last.ID == id && got == "" {
				t.Errorf("%s: at %d it runs when it looks again", name, l.at)
			}
		}
	}
}

// look is one look of a leader.
type look struct {
	at         int
	order, end string
	want       string
}
