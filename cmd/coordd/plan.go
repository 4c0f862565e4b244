package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/actors/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) planCommand() *cobra.Command {
	var what operator.WhatIf
	return a.ask(&cobra.Command{
		Use:   "plan",
		Short: "Show what the leader would move, and why, without moving it",
		Long: `Plans with the leader's own planner from what is in Consul now, and changes nothing:
which items would move, from where to where, and why; how many any plan would have to move; and
how even the members' loads are before and after. Without flags it shows what is left to do.

It counts soaks and graces as over. Which member an item goes to is a forecast: the leader decides
when the item is free, and may take another member that has as few items.`,
		Example: `  coordd plan --drain n2
  coordd plan --without n2,n3
  coordd plan --add 2 --json`,
	}, noIDs, func(f *pflag.FlagSet) {
		f.StringSliceVar(&what.Drain, "drain", nil,
			"The `members` that are drained, separated by commas.")
		f.StringSliceVar(&what.Without, "without", nil,
			"The `members` that are lost, separated by commas.")
		f.IntVar(&what.Add, "add", 0, "So many `members` more.")
		orders(f, "drain", "without", "add")
	}, func(ctx context.Context, q query) error {
		p, err := q.Plan(ctx, what)
		if errors.Is(err, operator.ErrNotFound) {
			return fmt.Errorf("%w: see \"coordd status\"", err)
		}
		if err != nil {
			return err
		}
		if q.asJSON {
			return printJSON(a.out, p)
		}
		return printPlan(a.out, p)
	})
}

func printPlan(w io.Writer, p operator.Plan) error {
	t := table(w)
	row := rows(t)
	row(p.Moving == 0, "moves", "none")
	row(p.Moving > 0, "moves", "%s", count(p.Moving, "item"))
	row(p.Starting > 0, "starts", "%s that nobody runs now", count(p.Starting, "item"))
	waits, stays := map[string][]string{}, map[string][]string{}
	for _, u := range p.Unplaced {
		group := waits
		if u.At != "" {
			group = stays
		}
		group[u.Why] = append(group[u.Why], u.Item)
	}
	for _, why := range slices.Sorted(maps.Keys(waits)) {
		row(true, "waits", "%s: %s", itemsText(waits[why]), why)
	}
	for _, why := range slices.Sorted(maps.Keys(stays)) {
		row(true, "stays", "%s where it runs now: %s", itemsText(stays[why]), why)
	}
	row(p.Quarantined > 0, "quarantined", "%s, which nobody runs", count(p.Quarantined, "item"))
	row(p.Removed > 0, "stops", "%s no longer in the workload", count(p.Removed, "item"))
	row(p.Version != "", "rollout", "until all have version %s, its members have up to twice a share",
		safe(p.Version))
	row(true, "imbalance", "the loads of two members differ by %d at most, and by %d afterwards",
		p.ImbalanceBefore, p.ImbalanceAfter)
	row(p.Frozen, "frozen", `nothing of it happens until "coordd thaw"`)
	row(p.Brake != "", "brake", "the leader would put it on first: %s", safe(p.Brake))
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = table(w)
	fmt.Fprintln(t, "MEMBER\tITEMS\tTHEN\tGETS\tGIVES\tLOAD\tTHEN\tNOTE")
	for _, m := range p.Members {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", safe(m.ID), m.Before, m.After, m.Gets,
			m.Gives, m.LoadBefore, m.LoadAfter, memberNote(m))
	}
	if err := t.Flush(); err != nil || len(p.Moves) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return printMoves(w, p.Moves)
}

// moveGroup is what moves have in common that are shown on one line.
type moveGroup struct{ from, to, why, prefers string }

func printMoves(w io.Writer, moves []operator.PlanMove) error {
	groups := map[moveGroup]int{}
	for _, m := range moves {
		groups[moveGroup{m.From, m.To, m.Why, m.Prefers}]++
	}
	t := table(w)
	fmt.Fprintln(t, "FROM\tTO\tITEMS\tWHY")
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(x, y moveGroup) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to),
			cmp.Compare(x.why, y.why), cmp.Compare(x.prefers, y.prefers))
	}) {
		why := operator.WordsOf(g.why).Plan
		if g.prefers != "" {
			why += "; it prefers " + safe(g.prefers)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", dash(g.from), dash(g.to), groups[g], why)
	}
	return t.Flush()
}

func memberNote(m operator.PlanMember) string {
	var notes []string
	note := func(yes bool, text string) {
		if yes {
			notes = append(notes, text)
		}
	}
	note(m.Drained, "drained")
	note(m.Gone, "lost")
	note(m.New, "new")
	note(m.Capacity > 0, fmt.Sprintf("room for %d", m.Capacity))
	note(len(notes) == 0 && !m.TakesWork, "takes no work")
	return dash(strings.Join(notes, ", "))
}
