package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) itemsCommand() *cobra.Command {
	var s serviceFlags
	var asJSON bool
	var members, states []string
	cmd := &cobra.Command{
		Use:   "items [ID...]",
		Short: "Show the items, who has each, and what its work does",
		Long: `Shows each item of the workload, or those named: its state, the member that has
it, how often its work was restarted, since when it is in that state, and why.

The states: running, starting, crash-looping (its work ends again and again),
stopping (on its way to another member), waiting (for the lease of a lost member
to end), free (no member has it), quarantined (nobody runs it, for its work failed
too often; see coordd run --max-restarts), and owned (what its work does is not known:
its member is silent, or has just come, or is of an older version).

RESTARTS counts how often its work has ended by itself at that member. SINCE is known of
items that do not simply run; "coordd explain ITEM" says since when an item is where it is.`,
		Example: `  coordd items
  coordd items --state crash-looping,waiting,free
  coordd items --member n1 --json
  coordd items device-1 device-2`,
		RunE: a.does(func(ctx context.Context, ids []string) error {
			wanted, err := filterOf(ids, members, states)
			if err != nil {
				return err
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			status, items, err := o.Items(ctx)
			if err != nil {
				return err
			}
			if !asJSON {
				a.nameUnused(ctx, o, status)
			}
			a.nameUnknown(members, memberIDs(status))
			missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
				return slices.ContainsFunc(items, func(i actors.ItemStatus) bool {
					return i.ID == id
				})
			})
			items = slices.DeleteFunc(items, func(i actors.ItemStatus) bool { return !wanted(i) })
			if asJSON {
				err = printJSON(a.out, append([]actors.ItemStatus{}, items...))
			} else {
				err = a.print(func(w *bytes.Buffer) error {
					return printItems(w, items, time.Now())
				})
			}
			if err == nil && len(missing) > 0 {
				said := "not in the workload: " + foreigners(missing)
				if len(missing) == 1 {
					ids, _ := o.ItemIDs(ctx) // without them there is no question
					if asked := question(missing[0], ids); asked != "" {
						said += "." + asked
					}
				}
				return errors.New(said)
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&members, "member", nil, "Only items of these `members`, separated by commas.")
	f.StringSliceVar(&states, "state", nil, "Only items in these `states`, separated by commas.")
	jsonFlag(cmd, &asJSON, "Print JSON.")
	orders(f, "member")
	s.register(f)
	cmd.ValidArgsFunction = a.completeMany(&s, "the id of one item")
	_ = cmd.RegisterFlagCompletionFunc("member", a.completeMany(&s,
		"the id of one member"))
	_ = cmd.RegisterFlagCompletionFunc("state", func(*cobra.Command, []string,
		string) ([]string, cobra.ShellCompDirective) {
		return stateNames(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// nameUnknown says on standard error which members are asked for and are not there: that nothing is
// at them is no wonder, and may be a slip.
func (a *app) nameUnknown(asked, there []string) {
	for _, id := range asked {
		if !slices.Contains(there, id) {
			fmt.Fprintf(a.lines,
				"%s: no member %q is registered, and none that is gone has items.%s\n",
				a.path, id, question(id, there))
		}
	}
}

func stateNames() []string {
	names := make([]string, len(actors.ItemStates))
	for i, state := range actors.ItemStates {
		names[i] = string(state)
	}
	return names
}

// filterOf tells which items are asked for; no members, states or ids: all.
func filterOf(ids, members, states []string) (func(actors.ItemStatus) bool, error) {
	for _, id := range slices.Concat(ids, members) {
		if err := actors.CheckID(id); err != nil {
			return nil, usage("%v", err)
		}
	}
	for _, state := range states {
		if !slices.Contains(stateNames(), state) {
			like := slices.DeleteFunc(stateNames(), func(name string) bool {
				return state == "" || !strings.Contains(name, state)
			})
			if len(like) == 0 {
				like = alike(state, stateNames())
			}
			asked := didYouMean(like)
			if asked != "" {
				asked = ": " + asked
			}
			return nil, usage("--state %q: give some of %s%s", state,
				strings.Join(stateNames(), ", "), asked)
		}
	}
	filter := actors.ItemFilter{IDs: ids, Members: members}
	for _, state := range states {
		filter.States = append(filter.States, actors.ItemState(state))
	}
	return filter.Match(), nil
}

func printItems(w io.Writer, items []actors.ItemStatus, now time.Time) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, "No items.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ITEM\tSTATE\tMEMBER\tRESTARTS\tSINCE\tWHY")
	for _, i := range items {
		member, since := "-", "-"
		if i.Member != "" {
			member = foreign(i.Member)
		}
		if !i.Since.IsZero() {
			since = span(now.Sub(i.Since))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", foreign(i.ID), i.State, member, i.Restarts,
			since, foreign(inShort(i, now)))
	}
	return t.Flush()
}

// inShort is what a row says of an item: why it does not run, or how its work ended last.
func inShort(i actors.ItemStatus, now time.Time) string {
	text := i.Why
	if i.State == actors.ItemLooping {
		text = ""
	}
	add := func(more string) {
		if text != "" {
			text += "; "
		}
		text += more
	}
	if i.LastExit != "" {
		add("its last end: " + i.LastExit)
		if left := i.NextStart.Sub(now); left > 0 {
			add("starts again in " + span(left))
		}
	}
	if left := i.Until.Sub(now); left > 0 {
		add("in " + span(left) + " at the latest")
	}
	if i.Removed {
		add("removed from the workload")
	}
	return text
}

// span is a length of time for people. Clocks differ, so one that is negative is none.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

func (a *app) membersCommand() *cobra.Command {
	var s serviceFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Show the members and what the work of each does",
		Long: `Shows each member that is registered, and those that are gone and whose items
wait for them: how many items it has, and how many of them run, start, loop,
stop, or wait. A member is silent since it reported last to its health check, once
that has run out.

CAPACITY, ZONE and APP (--app-version) are what the member was started with, LEASE is how
long it works on without Consul, and COORDD is the version of coordd.`,
		Example: `  coordd members
  coordd members --service billing --json`,
		Args: noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			status, err := o.Status(ctx)
			if err != nil {
				return err
			}
			if !asJSON {
				a.nameUnused(ctx, o, status)
			}
			if asJSON {
				return printJSON(a.out, append(status.Members, status.Absent...))
			}
			if len(status.Members)+len(status.Absent) == 0 {
				_, err := fmt.Fprintf(a.out, "No members are registered. Start one: coordd run "+
					"--service %s --id ID\n", foreign(status.Service))
				return err
			}
			return a.print(func(w *bytes.Buffer) error { return printMembers(w, status, true) })
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	jsonFlag(cmd, &asJSON, "Print JSON.")
	s.register(f)
	return cmd
}
