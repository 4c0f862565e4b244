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
service together. It proves that no item was worked on by two members at once, that no two led at
once, and that fencing tokens and epochs rose; or it prints the shortest stretch that shows where
that is not so. Give the files of all members: it judges only what is in them. --skew says how far
the clocks of the hosts may be apart: overlaps up to it do not count.

The rules: I1, one owner of an item at a time; I2, one leader, and tokens and epochs rise; I3, every
item has an owner again in time; I4, nothing is lost. "not judged" names a rule that these files
cannot tell of: it is no breach. A guard on a busy host finds late that a command it killed is gone:
overlaps with that time are counted, and are no breach.

Exit code 0 means no breach, 1 that there is one, 2 that a file cannot be judged.`,
		Example: `  coordd verify m1.history m2.history m3.history
  coordd verify --skew 50ms /var/log/coordd/*.history`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("give the files to read")
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&skew, "skew", 0,
		"The `time` by which the clocks of the hosts may be apart.")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print JSON.")
	cmd.RunE = a.does(func(_ context.Context, args []string) error {
		report, err := judge(args, skew)
		if err != nil {
			return err
		}
		if err := a.tell(asJSON, report, report.String()); err != nil {
			return err
		}
		if n := len(report.Breaches); n > 0 {
			return fmt.Errorf("the history breaks the rules %d times: see above", n)
		}
		return nil
	})
	return cmd
}

func judge(names []string, skew time.Duration) (history.Report, error) {
	var all [][]history.Event
	found := false
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return history.Report{}, usage("%v", err)
		}
		events, err := history.Read(f)
		f.Close()
		if err != nil {
			return history.Report{}, usage("%s: %v", name, err)
		}
		all = append(all, events)
		found = found || len(events) > 0
	}
	if !found {
		return history.Report{}, usage("there is no event in %s, so there is nothing to judge: "+
			"give files that coordd run --history has written", strings.Join(names, ", "))
	}
	return history.Check(history.Merge(all...), history.Options{Skew: skew}), nil
}
