package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) statusCommand() *cobra.Command {
	var check, watch, wide bool
	c := a.ask(&cobra.Command{
		Use:   "status",
		Short: "Show the leader, the members, what their work does, and what is wrong",
		Long: `Shows who leads a service, how many of its items are in each state, and the same for
each member ("coordd items --help" names the states). A line "wrong" says what is wrong: nobody
leads, items run nowhere, or their work ends again and again. The exit code is 1 then.

Members say what their work does, a few seconds late. One that is stopped or cut off is shown as it
was until its check runs out. After that its items are "unknown": whether they run is not known.

With --watch it shows what has changed, every second, until it is stopped: on a terminal it draws
the screen anew, elsewhere each change is a line, with --json a line of JSON.`,
		Example: `  coordd status
  coordd status --watch
  coordd status --check || alert "$(coordd status --check)"`,
	}, noIDs, func(f *pflag.FlagSet) {
		f.BoolVarP(&watch, "watch", "w", false, "Show it again whenever it changes.")
		f.BoolVar(&check, "check", false, "Print one line: what is wrong, or \"ok\".")
		f.BoolVar(&wide, "wide", false,
			"Show each member's capacity, zone, lease and versions as well.")
		orders(f, "watch")
	}, func(ctx context.Context, q query) error {
		if watch {
			return a.watchStatus(ctx, q, wide)
		}
		status, err := q.Status(ctx)
		if err != nil {
			return err
		}
		switch {
		case q.asJSON:
			err = printJSON(a.out, status)
		case check:
			_, err = fmt.Fprintln(a.out, verdict(status))
		default:
			err = a.print(func(w io.Writer) error { return printStatus(w, status, wide) })
		}
		if err == nil && len(status.Problems) > 0 {
			return commandExit(exitFailed)
		}
		return err
	})
	c.MarkFlagsMutuallyExclusive("check", "json")
	c.MarkFlagsMutuallyExclusive("check", "watch")
	return c
}

// watchEvery is how often status --watch looks.
const watchEvery = time.Second

// watchStatus shows the status whenever it has changed, until it is told to stop.
func (a *app) watchStatus(ctx context.Context, q query, wide bool) error {
	draws := isTerminal(a.out) && !q.asJSON
	show := func(w io.Writer, s operator.Status, err error) error {
		switch {
		case err != nil && q.asJSON:
			return nil
		case q.asJSON:
			return printLine(w, s)
		case err != nil:
			_, err = fmt.Fprintln(w, "Consul does not answer")
		case draws:
			return printStatus(w, s, wide)
		default:
			_, err = fmt.Fprintf(w, "%s, %s, %s: %s\n", leads(s), count(len(s.Members), "member"),
				workInWords(s), verdict(s))
		}
		return err
	}
	var last []byte
	for {
		status, err := q.Status(ctx)
		if ctx.Err() != nil {
			return nil // it was to stop
		}
		var now bytes.Buffer
		if err != nil && !errors.Is(err, operator.ErrUnreachable) {
			return err
		}
		if err := show(&now, status, err); err != nil {
			return err
		}
		if now.Len() > 0 && !bytes.Equal(now.Bytes(), last) {
			last = now.Bytes()
			before := time.Now().Format(time.DateTime) + " "
			switch {
			case q.asJSON:
				before = ""
			case draws: // from the top of a cleared screen: no scrolling
				before = "\033[H\033[2J" + before + "\n\n"
			}
			err := a.print(func(w io.Writer) error {
				_, err := io.WriteString(w, before+string(last))
				return err
			})
			if err != nil {
				return err
			}
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// verdict is one line: what is wrong and where to look, or ok.
func verdict(s operator.Status) string {
	if len(s.Problems) == 0 {
		return "ok"
	}
	text := safe(s.Problem())
	for _, p := range s.Problems {
		if len(p.Items) > 0 {
			return text + "; coordd explain " + safe(p.Items[0])
		}
	}
	return text
}

func leads(s operator.Status) string {
	if s.Leader == nil {
		return "nobody leads"
	}
	return safe(s.Leader.ID) + " leads"
}

// workInWords counts the items by what becomes of them.
func workInWords(s operator.Status) string {
	var states []string
	for _, state := range operator.ItemStates {
		if n := s.Work.States[state]; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, state))
		}
	}
	text := count(s.Work.Total, "item")
	if len(states) > 0 {
		text += ": " + strings.Join(states, ", ")
	}
	return text
}

func printStatus(w io.Writer, s operator.Status, wide bool) error {
	t := table(w)
	row := rows(t)
	row(true, "service", "%s", safe(s.Service))
	row(s.Leader == nil, "leader", "nobody leads")
	if s.Leader != nil {
		row(true, "leader", "%s (epoch %d)", safe(s.Leader.ID), s.Leader.Epoch)
	}
	removed := ""
	if s.Work.Removed > 0 {
		removed = fmt.Sprintf("; %d more removed and not given up yet", s.Work.Removed)
	}
	row(true, "work", "%s%s", workInWords(s), removed)
	row(len(s.Problems) > 0, "wrong", "%s", verdict(s))
	row(s.Brake != "", "brake", "%s", safe(s.Brake))
	for _, line := range ordersInWords(s) {
		row(true, "orders", "%s", line)
	}
	row(s.Pins > 0, "orders", "%s pinned", count(s.Pins, "item"))
	for _, key := range s.Unreadable {
		row(true, "skipped", "%s: this version cannot read it", safe(key))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.Members)+len(s.Absent) == 0 {
		_, err := fmt.Fprintf(w, "\n%s\n", nobodyThere(s.Service))
		return err
	}
	fmt.Fprintln(w)
	return printMembers(w, s, wide)
}

// mostOrders is how many orders have a line of their own.
const mostOrders = 10

// ordersInWords says which orders stand, who gave each, and when.
func ordersInWords(s operator.Status) (lines []string) {
	for i, o := range s.Orders {
		if i == mostOrders {
			return append(lines, fmt.Sprintf("and %d more: see --json", len(s.Orders)-i))
		}
		line := "frozen"
		if o.Kind == "drain" {
			line = "drained: " + safe(o.Member)
		}
		if !o.At.IsZero() {
			line += ", since " + moment(o.At)
		}
		if o.By != "" {
			line += ", by " + safe(o.By)
		}
		if o.Kind == "freeze" {
			line += `: nothing is moved or placed until "coordd thaw"`
		}
		if !o.Deadline.IsZero() {
			line += "; all that is left at once at " + moment(o.Deadline)
		}
		lines = append(lines, line)
	}
	return lines
}

// printMembers prints one row for each member.
func printMembers(w io.Writer, s operator.Status, wide bool) error {
	t, more := table(w), ""
	if wide {
		more = "\tCAPACITY\tZONE\tLEASE\tCOORDD\tAPP"
	}
	fmt.Fprintln(t, "MEMBER\tSTATUS\tITEMS\tRUNNING\tSTARTING\tLOOPING\tSTOPPING\tWAITING"+more+
		"\tADDRESS")
	for _, m := range append(slices.Clone(s.Members), s.Absent...) {
		status := safe(m.Status)
		if !m.Since.IsZero() {
			status += " since " + moment(m.Since)
		}
		if !m.SilentSince.IsZero() {
			status += ", silent since " + moment(m.SilentSince)
		}
		if s.Leader != nil && s.Leader.ID == m.ID {
			status += ", leads"
		}
		if m.Drained {
			status += ", drained"
		}
		if m.Idle {
			status += ", runs nothing"
		}
		if n := m.States[operator.ItemFailing]; n > 0 {
			status += ", checks of " + count(n, "item") + " fail"
		}
		running := strconv.Itoa(m.States[operator.ItemRunning])
		if m.States[operator.ItemUnknown] > 0 {
			running = "?" // it does not say what its work does, or is silent
		}
		if wide {
			more = startedWith(m)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d%s\t%s\n", safe(m.ID), status, m.Items,
			running, m.States[operator.ItemStarting], m.States[operator.ItemLooping],
			m.States[operator.ItemStopping]+m.States[operator.ItemStuck],
			m.States[operator.ItemWaiting], more, safe(m.Address))
	}
	return t.Flush()
}

// startedWith has the cells of a member's capacity, zone, lease and versions.
func startedWith(m operator.StatusMember) string {
	capacity, lease := "", ""
	if m.Capacity > 0 {
		capacity = strconv.FormatUint(m.Capacity, 10)
	}
	if m.Lease > 0 {
		lease = (time.Duration(m.Lease) * time.Millisecond).String()
	}
	text := ""
	for _, cell := range []string{capacity, m.Zone, lease, m.Version, m.WorkVersion} {
		text += "\t" + dash(cell)
	}
	return text
}
