package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) planCommand() *cobra.Command {
	var s serviceFlags
	var what actors.WhatIf
	var asJSON, each bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what the leader would move, and why, without moving it",
		Long: `Plans with the leader's own planner from what is in Consul now, and changes nothing:
which items would move, from where to where, and why; how many that is against the fewest that
any plan would need; and how even the members' loads are before and after.

Without flags it shows what is left to do: nothing, where all is at rest. It counts on soaks
and graces to be over. Which member an item goes to is a forecast: the leader decides when
the item is free, and may take another member that has as few items.`,
		Example: `  coordd plan --drain n2
  coordd plan --without n2 --without n3
  coordd plan --add 2 --items
  coordd plan --json`,
		Args: noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			p, err := o.Plan(ctx, what)
			if errors.Is(err, actors.ErrNotFound) {
				return a.unknownInPlan(ctx, o, what, err)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, p)
			}
			return printPlan(a.out, p, each)
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&what.Drain, "drain", nil,
		"A `member` that is drained; several: repeat it, or with commas.")
	f.StringSliceVar(&what.Without, "without", nil,
		"A `member` that is lost; several: repeat it, or with commas.")
	f.IntVar(&what.Add, "add", 0, "So many `members` more.")
	f.BoolVar(&each, "items", false, "List each item that moves.")
	jsonFlag(cmd, &asJSON, "Print JSON, with each item that moves.")
	orders(f, "drain", "without", "add")
	s.register(f)
	for _, name := range []string{"drain", "without"} {
		// it fails only for a flag that is not there
		_ = cmd.RegisterFlagCompletionFunc(name, a.completeIDs(&s, "the id of one member"))
	}
	return cmd
}

// unknownInPlan names the member that is not there, and which may have been meant.
func (a *app) unknownInPlan(ctx context.Context, o *actors.Operator, what actors.WhatIf,
	failed error) error {
	status, err := o.Status(ctx)
	if err != nil {
		return failed
	}
	ids := memberIDs(status)
	for _, id := range slices.Concat(what.Drain, what.Without) {
		if !slices.Contains(ids, id) {
			return fmt.Errorf("no member %q is registered.%s", id, question(id, ids))
		}
	}
	return failed
}

// group of moves that have all but the item in common.
type moveGroup struct{ from, to, why, prefers string }

func printPlan(w io.Writer, p actors.Plan, each bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "moves\t%s\n", movesInWords(p))
	if p.Starting > 0 {
		fmt.Fprintf(t, "starts\t%s that nobody runs now\n", count(p.Starting, "item"))
	}
	stays, waits := unplaced(p.Unplaced)
	if n := len(waits); n > 0 {
		fmt.Fprintf(t, "waits\t%s: %s\n", namedCount(waits), whyUnplaced(waits))
	}
	if n := len(stays); n > 0 {
		fmt.Fprintf(t, "stays\t%s where owned now: %s\n", namedCount(stays), whyUnplaced(stays))
	}
	if p.Quarantined > 0 {
		fmt.Fprintf(t,
			"quarantined\t%s: nobody runs them; see \"coordd items --state quarantined\"\n",
			count(p.Quarantined, "item"))
	}
	if p.Removed > 0 {
		fmt.Fprintf(t, "stops\t%s no longer in the workload\n", count(p.Removed, "item"))
	}
	if p.Version != "" {
		fmt.Fprintf(t, "rollout\tuntil all have version %s, its members hold up to twice a share\n",
			foreign(p.Version))
	}
	fmt.Fprintf(t, "imbalance\t%d now, %d then\n", p.ImbalanceBefore, p.ImbalanceAfter)
	if p.Frozen {
		fmt.Fprintln(t, "frozen\tnothing of it happens until \"coordd thaw\"")
	}
	if p.Brake != "" {
		fmt.Fprintf(t, "brake\tthe leader would hold it first: %s\n", foreign(p.Brake))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MEMBER\tITEMS\tTHEN\tGETS\tGIVES\tLOAD\tTHEN\tNOTE")
	for _, m := range p.Members {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", foreign(m.ID), m.Before, m.After, m.Gets,
			m.Gives, m.LoadBefore, m.LoadAfter, memberNote(m))
	}
	if err := t.Flush(); err != nil || len(p.Moves) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if each {
		fmt.Fprintln(t, "ITEM\tFROM\tTO\tWHY")
		for _, m := range p.Moves {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", foreign(m.Item), dash(foreign(m.From)),
				dash(foreign(m.To)), whyThere(m.Why, m.Prefers))
		}
		return t.Flush()
	}
	groups := map[moveGroup]int{}
	for _, m := range p.Moves {
		groups[moveGroup{m.From, m.To, m.Why, m.Prefers}]++
	}
	var order []moveGroup
	for g := range groups {
		order = append(order, g)
	}
	slices.SortFunc(order, func(x, y moveGroup) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to),
			cmp.Compare(x.why, y.why), cmp.Compare(x.prefers, y.prefers))
	})
	fmt.Fprintln(t, "FROM\tTO\tITEMS\tWHY")
	for _, g := range order {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", dash(foreign(g.from)), dash(foreign(g.to)), groups[g],
			whyThere(g.why, g.prefers))
	}
	return t.Flush()
}

// moveReasons are the reasons of moves in words.
var moveReasons = map[string]string{
	"new":       "nobody runs it",
	"balance":   "its member has more than its share",
	"drain":     "its member is drained or takes no work",
	"capacity":  "its member has more than its capacity",
	"pinned":    "it is pinned there",
	"preferred": "it is preferred there",
	"failing":   "its work failed elsewhere",
	"takeover":  "its member is lost",
}

// whyThere says why an item moves, and why there.
func whyThere(why, prefers string) string {
	if prefers == "" {
		return moveReasons[why]
	}
	return moveReasons[why] + "; it prefers " + foreign(prefers)
}

func movesInWords(p actors.Plan) string {
	switch {
	case p.Moving == 0:
		return "none"
	case p.Exact && p.Moving == p.Minimum:
		return fmt.Sprintf("%s; no plan needs fewer", count(p.Moving, "item"))
	case p.Exact:
		return fmt.Sprintf("%s; the fewest are %d", count(p.Moving, "item"), p.Minimum)
	}
	return fmt.Sprintf("%s; any plan needs %d at least, not counting moves for balance",
		count(p.Moving, "item"), p.Minimum)
}

// unplaced parts the items that have no place to go: those that stay where they run, and those that
// nobody runs then.
func unplaced(all []actors.PlanUnplaced) (stays, waits []actors.PlanUnplaced) {
	for _, u := range all {
		if u.At != "" {
			stays = append(stays, u)
		} else {
			waits = append(waits, u)
		}
	}
	return stays, waits
}

// namedCount is how many items there are, and the first three by name.
func namedCount(items []actors.PlanUnplaced) string {
	const most = 3
	var names []string
	for _, u := range items[:min(most, len(items))] {
		names = append(names, u.Item)
	}
	text := count(len(items), "item") + " (" + foreigners(names)
	if len(items) > most {
		text += ", …"
	}
	return text + ")"
}

// whyUnplaced counts the reasons.
func whyUnplaced(items []actors.PlanUnplaced) string {
	n := map[string]int{}
	var whys []string
	for _, u := range items {
		if n[u.Why]++; n[u.Why] == 1 {
			whys = append(whys, u.Why)
		}
	}
	slices.Sort(whys)
	if len(whys) == 1 {
		return whys[0]
	}
	for i, why := range whys {
		whys[i] = fmt.Sprintf("%d %s", n[why], why)
	}
	return strings.Join(whys, ", ")
}

func memberNote(m actors.PlanMember) string {
	var notes []string
	for what, so := range map[string]bool{"drained": m.Drained, "lost": m.Gone, "new": m.New} {
		if so {
			notes = append(notes, what)
		}
	}
	if m.Capacity > 0 {
		notes = append(notes, fmt.Sprintf("room for %d", m.Capacity))
	}
	if len(notes) == 0 && !m.TakesWork {
		notes = append(notes, "takes no work")
	}
	slices.Sort(notes)
	return dash(strings.Join(notes, ", "))
}
