package main

import (
	"fmt"
	"io"
	"time"

	"github.com/coordd/coordd/actors"
)

// worstCase is one line of what the settings cost.
type worstCase struct {
	Key     string  `json:"key"`
	Event   string  `json:"event"`
	Seconds float64 `json:"seconds"`
	Formula string  `json:"formula"`
}

// explainTiming prints what the settings cost in each case. It needs no id and no Consul.
func (a *app) explainTiming(o runFlags) error {
	if o.id == "" {
		o.id = "any"
	}
	cfg := o.config()
	if err := cfg.Validate(); err != nil {
		return err
	}
	cases := o.worstCases(cfg)
	if o.json {
		return printJSON(a.out, map[string][]worstCase{"cases": cases})
	}
	return a.print(func(w io.Writer) error {
		for _, c := range cases {
			fmt.Fprintf(w, "%-8s %s\n         = %s\n",
				time.Duration(c.Seconds*float64(time.Second)).Round(time.Millisecond), c.Event,
				c.Formula)
		}
		_, err := fmt.Fprint(w, `
At the most, for a Consul that answers within 60ms and elects no leader of its own meanwhile. A
slower one adds what an answer takes, 5 times, and to what begins with a lost leader 15 times.
`)
		return err
	})
}

// worstCases are what the settings of cfg cost, which are those of the flags.
func (o *runFlags) worstCases(cfg actors.Config) (all []worstCase) {
	f := cfg.Bounds()
	add := func(key, event string, formula actors.Formula, more string) {
		all = append(all, worstCase{Key: key, Event: event, Seconds: formula.Total().Seconds(),
			Formula: formula.String() + more})
	}
	ofLeader := func(of actors.Formula) actors.Formula { return of.Plus(f.OfLeader...) }
	add("hand_over", "a member stops: its items run elsewhere", f.HandOver,
		", from the end of its work")
	if o.exec != "" && o.restartWait <= f.Detect.Total() {
		wait := actors.Formula{{Name: "restart-wait", Each: o.restartWait, Times: 1}}
		add("take_over_after_kill", "coordd is killed, and its guard lives",
			wait.Plus(f.HandOver...).Plus(f.Slack[0]),
			", or more by what its commands take to stop beyond restart-wait")
	}
	add("take_over", "a member hangs, or is killed and nobody speaks for it", f.TakeOver, "")
	add("take_over_of_leader", "the leader likewise", ofLeader(f.TakeOver), "")
	add("take_over_of_lost_machine", "a member's machine is lost", f.TakeOverMachine, "")
	add("take_over_of_leaders_machine", "the leader's machine likewise",
		ofLeader(f.TakeOverMachine), "")
	add("take_over_of_left_agent", "a member's Consul agent leaves, or its session is ended",
		f.TakeOverLeft, "")
	add("take_over_of_leaders_left_agent", "the leader's likewise", ofLeader(f.TakeOverLeft), "")
	if cfg.CheckTTL != actors.NoCheck {
		add("take_over_without_check", "a member, however lost, whose Consul agent takes no check",
			f.TakeOverUnchecked, "")
		add("take_over_of_leader_without_check", "the leader likewise",
			ofLeader(f.TakeOverUnchecked), "")
	}
	add("take_over_when_started_elsewhere",
		"a member is lost, and started under its id on another host meanwhile",
		f.TakeOverElsewhere, "")
	add("rides_through_silence_of", "Consul is silent for so long, and nobody loses anything",
		f.RideThrough, "")
	add("work_stops_after_last_renewal", "it is silent for longer: all work is told to stop",
		f.StopsWithin, ", from the last renewal")
	return all
}
