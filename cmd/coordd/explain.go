package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) explainCommand() *cobra.Command {
	var s serviceFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain ITEM",
		Short: "Show why an item is where it is, and what it takes for it to run",
		Long: `Shows one item: its state and why, the member that has it and why the leader
gave it there, since when (as far as the log of events goes back), how often its work
was restarted and how it ended last, and what would have to happen for it to run.

What happened before is in "coordd events ITEM", and what the work wrote in the log of
its member.`,
		Example: `  coordd explain device-1
  coordd explain device-1 --service billing --json`,
		Args: exactly(1, "the id of one item"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			if err := actors.CheckID(args[0]); err != nil {
				return usage("%v", err)
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			e, err := o.Explain(ctx, args[0])
			if errors.Is(err, actors.ErrNotFound) {
				return noItem(ctx, o, s.service, args[0])
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, e)
			}
			return a.print(func(w *bytes.Buffer) error {
				return printExplanation(w, e, time.Now())
			})
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	jsonFlag(cmd, &asJSON, "Print JSON.")
	s.register(f)
	cmd.ValidArgsFunction = a.completeIDs(&s, "the id of one item")
	return cmd
}

func printExplanation(w io.Writer, e actors.Explanation, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, foreign(fmt.Sprintf(format, args...)))
	}
	row("item", "%s", e.ID)
	state := string(e.State)
	if !e.Since.IsZero() {
		state += " for " + span(now.Sub(e.Since))
	}
	if e.Why != "" {
		state += ": " + e.Why
	}
	row("state", "%s", state)
	if e.Member != "" {
		at := e.Member
		if e.Token != 0 {
			at += fmt.Sprintf(", token %d", e.Token)
		}
		if e.There != "" {
			at += ": " + e.There
		}
		row("at", "%s", at)
	}
	if !e.ThereSince.IsZero() {
		row("since", "%s, for %s", e.ThereSince.Local().Format(time.DateTime),
			span(now.Sub(e.ThereSince)))
	}
	if e.Pinned != "" {
		pinned := "to " + e.Pinned
		if e.Member != "" && e.Member != e.Pinned && e.State != actors.ItemWaiting {
			pinned += ", and goes there when that member takes items and has room"
		}
		row("pinned", "%s", pinned)
	}
	if e.Preferred != "" {
		preferred := "at " + e.Preferred
		if e.Member != e.Preferred {
			preferred += ", and goes there when that member takes items and has room"
		}
		row("preferred", "%s", preferred)
	}
	if e.Removed {
		row("removed", "it is not in the workload any more")
	}
	if len(e.FailedAt) > 0 {
		row("failed", "too often at %s", strings.Join(e.FailedAt, ", "))
	}
	if e.Restarts > 0 {
		row("restarts", "%d by %s", e.Restarts, e.Member)
	}
	if e.LastExit != "" {
		last := e.LastExit
		if !e.LastExitAt.IsZero() {
			last += " (" + span(now.Sub(e.LastExitAt)) + " ago)"
		}
		row("last end", "%s", last)
	}
	if left := e.NextStart.Sub(now); left > 0 {
		row("starts", "again in %s", span(left))
	}
	if left := e.Until.Sub(now); left > 0 {
		row("waits", "for %s at the latest", span(left))
	}
	if e.Next != "" {
		row("to run", "%s", e.Next)
	}
	return t.Flush()
}
