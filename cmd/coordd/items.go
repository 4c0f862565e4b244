package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) itemsCommand() *cobra.Command {
	var members, states []string
	var pinned bool
	c := a.ask(&cobra.Command{
		Use:   "items [ITEM...]",
		Short: "Show the items, who has each, and what its work does",
		Long: `Shows each item of the workload, or those named: its state, the member that has it,
how often its work was restarted, since when it is in that state, and why.

The states:
  running        its work runs
  starting       its work is about to start
  crash-looping  its work ends again and again, by itself or by the guard or the lease
  failing-check  its work runs, and its check fails (run --check, --item-check)
  stopping       it is on its way to another member
  stuck          its work has not ended within the --stop-timeout
  waiting        it waits until the lease of a lost member has ended
  free           no member has it
  quarantined    nobody runs it, because its work failed too often (run --max-restarts)
  unknown        its member does not say what its work does, or its check has run out

RESTARTS counts how often its work has ended at that member without being told to.`,
		Example: `  coordd items
  coordd items --state crash-looping,waiting,free
  coordd items --member n1 --json
  coordd items --pinned`,
	}, anyItems, func(f *pflag.FlagSet) {
		f.StringSliceVar(&members, "member", nil,
			"Only items of these `members`, separated by commas.")
		f.StringSliceVar(&states, "state", nil,
			"Only items in these `states`, separated by commas.")
		f.BoolVar(&pinned, "pinned", false,
			"Only items that are pinned to a member, or preferred there.")
		orders(f, "member", "pinned")
	}, func(ctx context.Context, q query) error {
		wanted, err := filterOf(q.args, members, states)
		if err != nil {
			return err
		}
		status, items, err := q.Items(ctx)
		if err != nil {
			return err
		}
		for _, id := range members {
			if findMember(append(status.Members, status.Absent...), id) == nil {
				fmt.Fprintf(a.lines, "%s: %v\n", a.path, noMember(q.service, id))
			}
		}
		var missing []string
		for _, id := range q.args {
			if !slices.ContainsFunc(items, func(i operator.ItemStatus) bool { return i.ID == id }) {
				missing = append(missing, id)
			}
		}
		if pinned {
			if items, err = withPins(ctx, q, items); err != nil {
				return err
			}
		}
		items = slices.DeleteFunc(items, func(i operator.ItemStatus) bool { return !wanted(i) })
		if q.asJSON {
			err = printJSON(a.out, append([]operator.ItemStatus{}, items...))
		} else {
			err = a.print(func(w io.Writer) error {
				return printItems(w, items, pinned, time.Now())
			})
		}
		if err == nil && len(missing) > 0 {
			err = errors.New("not in the workload: " + safeList(missing))
		}
		return err
	})
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(),
		cobra.ShellCompDirectiveNoFileComp))
	return c
}

// withPins returns the items that are pinned or preferred, with those that are not in the workload.
func withPins(ctx context.Context, q query, items []operator.ItemStatus) ([]operator.ItemStatus,
	error) {
	pins, preferred, err := q.Pins(ctx)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(items, func(i operator.ItemStatus) bool {
		delete(pins, i.ID)
		delete(preferred, i.ID)
		return i.Pinned == "" && i.Preferred == ""
	})
	const absent = "not in the workload: the order stands for when it comes"
	for id, member := range pins {
		found = append(found, operator.ItemStatus{ID: id, Pinned: member, Why: absent})
	}
	for id, member := range preferred {
		found = append(found, operator.ItemStatus{ID: id, Preferred: member, Why: absent})
	}
	slices.SortFunc(found, func(x, y operator.ItemStatus) int {
		return strings.Compare(x.ID, y.ID)
	})
	return found, nil
}

func stateNames() []string {
	names := make([]string, len(operator.ItemStates))
	for i, state := range operator.ItemStates {
		names[i] = string(state)
	}
	return names
}

// filterOf tells which items are asked for; no members, states or ids: all.
func filterOf(ids, members, states []string) (func(operator.ItemStatus) bool, error) {
	filter := operator.ItemFilter{IDs: ids, Members: members}
	for _, state := range states {
		if !slices.Contains(stateNames(), state) {
			return nil, usage("--state %q: give some of %s", state,
				strings.Join(stateNames(), ", "))
		}
		filter.States = append(filter.States, operator.ItemState(state))
	}
	return filter.Match(), nil
}

func printItems(w io.Writer, items []operator.ItemStatus, pinned bool, now time.Time) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, "No items.")
		return err
	}
	t, head, pin := table(w), "", ""
	if pinned {
		head = "PINNED TO\t"
	}
	fmt.Fprintln(t, "ITEM\tSTATE\tMEMBER\t"+head+"RESTARTS\tSINCE\tWHY")
	for _, i := range items {
		since := "-"
		if !i.Since.IsZero() {
			since = span(now.Sub(i.Since))
		}
		if pinned {
			if pin = safe(i.Pinned) + "\t"; i.Pinned == "" {
				pin = safe(i.Preferred) + " (preferred)\t"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s%d\t%s\t%s\n", safe(i.ID), dash(string(i.State)),
			dash(i.Member), pin, i.Restarts, since, safe(inShort(i, now)))
	}
	return t.Flush()
}

// inShort is what a row says of an item: why it does not run, or how its work ended last.
func inShort(i operator.ItemStatus, now time.Time) string {
	var said []string
	if i.Why != "" && i.State != operator.ItemLooping {
		said = append(said, i.Why)
	}
	if i.LastExit != "" {
		said = append(said, "its last end: "+i.LastExit)
		if left := i.NextStart.Sub(now); left > 0 {
			said = append(said, "starts again in "+span(left))
		}
	}
	if left := i.Until.Sub(now); left > 0 {
		said = append(said, "in "+span(left)+" at the latest")
	}
	if i.Removed {
		said = append(said, "removed from the workload")
	}
	return strings.Join(said, "; ")
}

func (a *app) explainCommand() *cobra.Command {
	return a.ask(&cobra.Command{
		Use:   "explain ITEM",
		Short: "Show why an item is where it is, and what it takes for it to run",
		Long: `Shows one item: its state and why, the member that has it and why the leader gave it
there, how often its work was restarted, how it ended last, and what would have to happen for it
to run. "coordd events ITEM" shows what happened before.`,
		Example: "  coordd explain device-1",
	}, oneItem, nil, func(ctx context.Context, q query) error {
		e, err := q.Explain(ctx, q.args[0])
		if errors.Is(err, operator.ErrNotFound) {
			return noItem(q.service, q.args[0])
		}
		if err != nil {
			return err
		}
		if q.asJSON {
			return printJSON(a.out, e)
		}
		return a.print(func(w io.Writer) error { return printExplanation(w, e, time.Now()) })
	})
}

func printExplanation(w io.Writer, e operator.Explanation, now time.Time) error {
	t := table(w)
	put := rows(t)
	row := func(yes bool, name, format string, args ...any) {
		put(yes, name, "%s", safe(fmt.Sprintf(format, args...)))
	}
	since, at := "", e.Member
	if !e.Since.IsZero() {
		since = " for " + span(now.Sub(e.Since))
	}
	if e.Why != "" {
		since += ": " + e.Why
	}
	if e.Grant != 0 {
		at += fmt.Sprintf(", grant %d", e.Grant)
	}
	if e.There != "" {
		at += ": " + e.There
	}
	starts, waits := e.NextStart.Sub(now), e.Until.Sub(now)
	row(true, "item", "%s", e.ID)
	row(true, "state", "%s%s", e.State, since)
	row(e.Member != "", "at", "%s", at)
	row(!e.ThereSince.IsZero(), "since", "%s, for %s", e.ThereSince.Local().Format(time.DateTime),
		span(now.Sub(e.ThereSince)))
	row(e.Pinned != "", "pinned", "to %s", e.Pinned)
	row(e.Preferred != "", "preferred", "at %s", e.Preferred)
	row(e.Removed, "removed", "it is not in the workload any more")
	row(len(e.FailedAt) > 0, "failed", "too often at %s", strings.Join(e.FailedAt, ", "))
	row(e.Restarts > 0, "restarts", "%d by %s", e.Restarts, e.Member)
	ago := ""
	if !e.LastExitAt.IsZero() {
		ago = " (" + span(now.Sub(e.LastExitAt)) + " ago)"
	}
	row(e.LastExit != "", "last end", "%s%s", e.LastExit, ago)
	row(starts > 0, "starts", "again in %s", span(starts))
	row(waits > 0, "waits", "for %s at the latest", span(waits))
	row(e.Next != "", "to run", "%s", e.Next)
	return t.Flush()
}

func (a *app) locateCommand() *cobra.Command {
	return a.ask(&cobra.Command{
		Use:   "locate ITEM",
		Short: "Show which member an item is at, for scripts",
		Long: `Prints the member that works on an item, the address that the member published, and
the number of the grant that it works under, separated by tabs. It is a failure if the item is being
moved, has no owner or is not in the workload. To send requests to the owners of items, use
run --route.`,
		Example: "  coordd locate device-1",
	}, oneItem, nil, func(ctx context.Context, q query) error {
		loc, err := q.Locate(ctx, q.args[0])
		if err != nil {
			return err
		}
		return a.tell(q.asJSON, loc, fmt.Sprintf("%s\t%s\t%d", safe(loc.Member), safe(loc.Address),
			loc.Grant))
	})
}
