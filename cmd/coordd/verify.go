package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/spf13/cobra"
)

func (a *app) verifyCommand() *cobra.Command {
	var skew time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Judge histories: was every item worked on by one member at a time",
		Long: `Reads the histories that members wrote with "coordd run --history FILE", all of one
service together, and proves that no item was worked on by two members at once, that no two
led at once, and that fencing tokens and epochs rose; or prints the shortest stretch
that shows where that is not so.

What is not in the files cannot be judged: give those of all members. The clocks of their hosts
differ: --skew says by how much at the most, and overlaps up to it do not count.

The rules: I1, one owner of an item at a time; I2, one leader, and tokens and epochs rise; I3,
every item has an owner again in time; I4, nothing is lost. "not judged" names what these files
cannot tell (members do not see when the faults are over, nor all of Consul's keys): it is no
breach. "incomplete" names a member that could not write its history for a while: what it did then
is no breach either. A member that stood still (SIGSTOP, a suspended host) led until then, if it
leads no more within a second of waking up. If its guard process stood still as well, its commands
count as standing still with them: the history does not tell of commands that went on alone. Items
that it held without a command stood still with it. A member that was cut off from Consul, and has a
health check there, led until it was last heard: another may lead before the lease is over.

Exit code 0 means no breach, 1 that there is one, 2 that a file cannot be judged: it cannot be
read, is given twice, or was written while its host's clock was set back; or that there is nothing
in them.`,
		Example: `  coordd verify m1.history m2.history m3.history
  coordd verify --skew 50ms /var/log/coordd/*.history`,
		Args: atLeast(1, "the files to read"),
	}
	cmd.Flags().DurationVar(&skew, "skew", 0, "how far the clocks of the hosts may be apart")
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		report, err := a.judge(ctx, args, skew)
		if err != nil {
			return err
		}
		if err := a.tell(asJSON, judgementOf(report), report.String()); err != nil {
			return err
		}
		if n := len(report.Breaches); n > 0 {
			return fmt.Errorf("the history breaks the rules %d times: see above", n)
		}
		return nil
	})
	jsonFlag(cmd, &asJSON, "Print JSON.")
	return cmd
}

func (a *app) judge(ctx context.Context, names []string, skew time.Duration) (
	_ history.Report, err error) {
	none := history.Report{}
	if skew < 0 {
		return none, usage("--skew %v: give a time of 0s or more", skew)
	}
	var all [][]history.Event
	found := false
	boots := map[string]string{} // process -> the file that tells of its beginning
	for _, name := range names {
		events, err := reading(ctx, func() ([]history.Event, error) {
			f, err := os.Open(name)
			if err != nil {
				return nil, usage("%v", err)
			}
			defer f.Close()
			events, err := history.Read(f)
			if err != nil {
				return nil, usage("%s: %v", name, err)
			}
			return events, nil
		})
		if err != nil {
			return none, err
		}
		if line, by := history.SetBack(events); by > 0 {
			return none, usage("%s: the clock of its host was set back by %v before %s: cut the "+
				"file there, and judge each part by itself", name, by, line)
		}
		for _, e := range events {
			if e.Verb != history.Boot {
				continue
			}
			if before, twice := boots[e.Proc]; twice {
				return none, usage("%s tells of %s, and so does %s: give each history once",
					name, e.Proc, before)
			}
			boots[e.Proc] = name
		}
		all = append(all, events)
		found = found || len(events) > 0
	}
	if !found {
		return none, usage("there is no event in %s, so there is nothing to judge: give files "+
			"that coordd run --history has written", strings.Join(names, ", "))
	}
	return history.Check(history.Merge(all...), history.Options{Skew: skew}), nil
}

// judgement is the JSON form of a report.
type judgement struct {
	Events      int `json:"events"`
	Processes   int `json:"processes"`
	Items       int `json:"items"`
	Starts      int `json:"starts"`
	Leaderships int `json:"leaderships"`
	Writes      int `json:"writes"`
	// overlaps after a thaw, in which the token keeps the late process from doing harm
	Fenced     int      `json:"fenced"`
	Forgiven   int      `json:"forgiven"` // overlaps after Consul had lost writes
	NotJudged  []string `json:"not_judged"`
	Incomplete []string `json:"incomplete"`
	Breaches   []breach `json:"breaches"`
}

type breach struct {
	Rule  string   `json:"rule"`
	Text  string   `json:"text"`
	Lines []string `json:"lines"` // of the histories, that show it
}

func judgementOf(r history.Report) judgement {
	j := judgement{Events: r.Events, Processes: r.Processes, Items: r.Items, Starts: r.Starts,
		Leaderships: r.Leaderships, Writes: r.Writes, Fenced: r.Fenced, Forgiven: r.Forgiven,
		NotJudged: append([]string{}, r.Unjudged...), Incomplete: []string{}, Breaches: []breach{}}
	for _, g := range r.Lost {
		j.Incomplete = append(j.Incomplete, g.String())
	}
	for _, b := range r.Breaches {
		lines := make([]string, len(b.Stretch))
		for i, e := range b.Stretch {
			lines[i] = e.String()
		}
		j.Breaches = append(j.Breaches, breach{b.Rule, b.Text, lines})
	}
	return j
}
