package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

// reachTimeout is how long a command waits for a Consul that takes connections and does not answer:
// long enough for an election among its servers, short enough for a person. refusedTimeout is how
// long it waits for one that refuses them: as long as one takes that is being restarted.
const (
	reachTimeout   = 10 * time.Second
	refusedTimeout = 3 * time.Second
)

// reached returns the operators' side of the service once Consul has answered.
func (s *serviceFlags) reached(ctx context.Context) (*actors.Operator, error) {
	o, address, err := s.operator(ctx)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, refusedTimeout)
	err = o.Reach(wait)
	cancel()
	if errors.Is(err, actors.ErrUnreachable) && !errors.Is(err, syscall.ECONNREFUSED) {
		wait, cancel = context.WithTimeout(ctx, reachTimeout-refusedTimeout)
		err = o.Reach(wait)
		cancel()
	}
	if err != nil {
		return nil, trouble(address, err)
	}
	return o, nil
}

func (a *app) statusCommand() *cobra.Command {
	var s serviceFlags
	var asJSON, check, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the leader, the members, what their work does, and what is wrong",
		Long: `Shows who leads a service, how many of its items run, start, loop, stop, wait for
a lost member, or are free, and how many of each state every member has. A line
"wrong" says what is wrong: nobody leads, items run nowhere, or their work ends
again and again. Then the exit code is 1.

Members say themselves what their work does, a few seconds late at the most.
Items of a member that is silent, or that does not say it because it is of an older
version, are "owned": whether they run is not known.

With --watch it looks every second until it is stopped, and shows what has changed: on
a terminal by drawing the screen anew, elsewhere as a line with the time, with --json as
one line of JSON. It then ends with 0, whatever is wrong.`,
		Example: `  coordd status
  coordd status --service billing --json
  coordd status --watch
  coordd status --check || alert "$(coordd status --check)"`,
		Args: noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if asJSON && check {
				return usage("--check prints one line, and --json all: give one of them")
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			if watch {
				return a.watchStatus(ctx, o, asJSON, check)
			}
			status, err := o.Status(ctx)
			if err != nil {
				return err
			}
			if !asJSON {
				a.nameUnused(ctx, o, status)
			}
			switch {
			case asJSON:
				err = printJSON(a.out, status)
			case check:
				_, err = fmt.Fprintln(a.out, verdict(status))
			default:
				err = a.print(func(w *bytes.Buffer) error { return printStatus(w, status) })
			}
			if err == nil && len(status.Problems) > 0 {
				return commandExit(exitFailed)
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&watch, "watch", "w", false, "Show it again whenever it changes.")
	jsonFlag(cmd, &asJSON, "Print JSON.")
	f.BoolVar(&check, "check", false, "Print one line: what is wrong, or \"ok\".")
	orders(f, "watch")
	s.register(f)
	return cmd
}

// verdict is one line: what is wrong and where to look, or ok.
func verdict(s actors.Status) string {
	if len(s.Problems) == 0 {
		return "ok"
	}
	text := foreign(s.Problem())
	for _, p := range s.Problems {
		if len(p.Items) > 0 {
			return text + "; coordd explain " + foreign(p.Items[0])
		}
	}
	return text
}

func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(plainJSON(b.Bytes()))
	return err
}

func printStatus(w io.Writer, s actors.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "service\t%s\n", foreign(s.Service))
	if s.Leader == nil {
		fmt.Fprintf(t, "leader\tnobody leads\n")
	} else {
		fmt.Fprintf(t, "leader\t%s (epoch %d)\n", foreign(s.Leader.ID), s.Leader.Epoch)
	}
	fmt.Fprintf(t, "work\t%s", workInWords(s))
	if s.Work.Removed > 0 {
		fmt.Fprintf(t, "; %d more removed and not given up yet", s.Work.Removed)
	}
	fmt.Fprintln(t)
	if len(s.Problems) > 0 {
		fmt.Fprintf(t, "wrong\t%s\n", verdict(s))
	}
	if s.Brake != "" {
		fmt.Fprintf(t, "brake\t%s\n", foreign(s.Brake))
	}
	for _, line := range ordersInWords(s) {
		fmt.Fprintf(t, "orders\t%s\n", line)
	}
	if s.Pins > 0 {
		fmt.Fprintf(t, "orders\t%s pinned\n", count(s.Pins, "item"))
	}
	for _, key := range s.Strange {
		fmt.Fprintf(t, "skipped\t%s: this version cannot read it\n", foreign(key))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.Members)+len(s.Absent) == 0 {
		_, err := fmt.Fprintf(w,
			"\nNo members are registered. Start one: coordd run --service %s --id ID\n",
			foreign(s.Service))
		return err
	}
	fmt.Fprintln(w)
	return printMembers(w, s, false)
}

// fewDrained is how many drained members have a line of their own.
const fewDrained = 5

// ordersInWords says which orders stand, who gave each, and when.
func ordersInWords(s actors.Status) (lines []string) {
	for _, o := range s.Orders {
		given := ""
		if !o.At.IsZero() {
			given += ", since " + moment(o.At)
		}
		if o.By != "" {
			given += ", by " + foreign(o.By)
		}
		switch {
		case o.Kind == "freeze":
			lines = append(lines, "frozen"+given+
				`: nothing is moved or placed until "coordd thaw"`)
		case len(s.Drained) <= fewDrained:
			line := "drained: " + foreign(o.Member) + given
			if !o.Deadline.IsZero() {
				line += "; all that is left at once at " + moment(o.Deadline)
			}
			lines = append(lines, line)
		}
	}
	if len(s.Drained) > fewDrained {
		lines = append(lines, drainedByWhom(s)...)
	}
	return lines
}

// drainedByWhom has a line for each who has ordered members to be drained, with when the first of
// these orders was given.
func drainedByWhom(s actors.Status) (lines []string) {
	var all []string
	ids, first := map[string][]string{}, map[string]time.Time{}
	for _, o := range s.Orders {
		if o.Kind != "drain" {
			continue
		}
		if ids[o.By] == nil {
			all = append(all, o.By)
		}
		ids[o.By] = append(ids[o.By], o.Member)
		if at := first[o.By]; !o.At.IsZero() && (at.IsZero() || o.At.Before(at)) {
			first[o.By] = o.At
		}
	}
	for _, by := range all {
		line := "drained: " + foreigners(ids[by])
		if at := first[by]; !at.IsZero() {
			line += "; since " + moment(at)
		}
		if by != "" {
			line += "; by " + foreign(by)
		}
		lines = append(lines, line)
	}
	return lines
}

// moment is a time for people: without the date if that is today's.
func moment(t time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// workInWords counts the items by what becomes of them.
func workInWords(s actors.Status) string {
	text := count(s.Work.Total, "item")
	for i, state := range present(s.Work.States) {
		text += fmt.Sprintf("%s%d %s", map[bool]string{true: ": ", false: ", "}[i == 0],
			s.Work.States[state], state)
	}
	return text
}

// present are the states that some item is in.
func present(counts map[actors.ItemState]int) (states []actors.ItemState) {
	for _, state := range actors.ItemStates {
		if counts[state] > 0 {
			states = append(states, state)
		}
	}
	return states
}

// printMembers prints one row for each member; whole: with what it was started with.
func printMembers(w io.Writer, s actors.Status, whole bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	more := ""
	if whole {
		more = "\tCAPACITY\tZONE\tLEASE\tCOORDD\tAPP"
	}
	fmt.Fprintln(t, "MEMBER\tSTATUS\tITEMS\tRUNNING\tSTARTING\tLOOPING\tSTOPPING\tWAITING"+more+
		"\tADDRESS")
	for _, m := range append(slices.Clone(s.Members), s.Absent...) {
		status := foreign(m.Status)
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
		running := strconv.Itoa(m.States[actors.ItemRunning])
		if m.States[actors.ItemOwned] > 0 {
			running = "?" // it does not say what its work does, or is silent
		}
		if whole {
			more = startedWith(m)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d%s\t%s\n", foreign(m.ID), status, m.Items,
			running, m.States[actors.ItemStarting], m.States[actors.ItemLooping],
			m.States[actors.ItemStopping], m.States[actors.ItemWaiting], more, foreign(m.Address))
	}
	return t.Flush()
}

// startedWith has the cells of a member's capacity, zone, lease and versions.
func startedWith(m actors.StatusMember) string {
	capacity, lease := "-", "-"
	if m.Capacity > 0 {
		capacity = strconv.FormatUint(m.Capacity, 10)
	}
	if m.Lease > 0 {
		lease = (time.Duration(m.Lease) * time.Millisecond).String()
	}
	text := ""
	for _, cell := range []string{capacity, foreign(m.Zone), lease, foreign(m.Version),
		foreign(m.WorkVersion)} {
		text += "\t" + cmp.Or(cell, "-")
	}
	return text
}
