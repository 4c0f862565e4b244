package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) drainCommand(s *serviceFlags) *cobra.Command {
	var deadline, timeout time.Duration
	var wait, force, asJSON bool
	own := s == nil
	if own {
		s = new(serviceFlags)
	}
	cmd := &cobra.Command{
		Use:   "drain MEMBER",
		Short: "Empty a member",
		Long: `Orders that a member gives up its items and gets no new ones, until "coordd undrain".
They go within the move budget of the leader (coordd run --move-budget): each stops at the
member before it starts elsewhere. A leader that is drained hands its leadership over.

With --deadline the member gives up all that is left then at once, whatever the budget;
--deadline 0s means now. The time counts by the clocks of this host and of the leader's.
With --wait the command ends when the member has no items, and with exit code 1 when somebody
takes the order back. With --timeout as well it ends by then, with exit code 1 if items are left;
the order stands, and the items go on moving.

Draining the last member that takes work would leave its items to nobody: that takes
--force. So does an order for a member that is not registered and has no items: its id may
be a slip. Such an order stands for when it comes. Items that are pinned to the member, or
that the others have no room for (--capacity), run nowhere then. They are named, as far as
there are few; "coordd plan --drain" says it before.`,
		Example: `  coordd drain n2
  coordd drain n2 --deadline 10m --wait
  coordd drain n2 --deadline 0s --wait --timeout 1m`,
		Args: exactly(1, "the id of one member"),
	}
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		member := args[0]
		switch {
		case actors.CheckID(member) != nil:
			return actors.CheckID(member)
		case deadline < 0:
			return usage("--deadline %v: give 0s or more", deadline)
		case timeout < 0:
			return usage("--timeout %v: give 0s or more", timeout)
		case timeout > 0 && !wait:
			return usage("--timeout is how long --wait waits: give both")
		}
		o, err := s.reached(ctx)
		if err != nil {
			return err
		}
		o = o.As(whoami())
		status, err := o.Status(ctx)
		if err != nil {
			return err
		}
		if last := lastWorker(status, member); last != "" && !force {
			return errors.New(last)
		}
		unknown := unknownMember(status, member)
		if unknown != "" && !force && !slices.Contains(status.Drained, member) {
			return errors.New(noMember(s.service, status, member))
		}
		g := given{Order: "drain", Member: member,
			said: "Drained: " + member + " gives up its items and gets no new ones."}
		g.note(unknown)
		g.note(notNow(status))
		pins, err := o.Pins(ctx)
		if err != nil {
			return err
		}
		g.note(pinnedTo(member, pins))
		g.note(noRoomFor(ctx, o, status, member, pins))
		by := deadlineOf(status, member)
		if cmd.Flags().Changed("deadline") {
			by = time.Now().Add(deadline)
		}
		if err := o.DrainBy(ctx, member, by); err != nil {
			return err
		}
		if !wait {
			return a.tellOrder(g, asJSON)
		}
		if !asJSON {
			if err := a.tellOrder(g, false); err != nil {
				return err
			}
		}
		left, failed := a.awaitEmpty(ctx, o, member, timeout, asJSON)
		if asJSON {
			g.Left = &left
			if err := a.tellOrder(g, true); err != nil {
				return err
			}
		}
		return failed
	})
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&deadline, "deadline", 0,
		"The `time` after which it gives up at once what is left. Left out: that of the order "+
			"that stands, or never.")
	f.BoolVar(&wait, "wait", false, "Wait until it has no items.")
	f.DurationVar(&timeout, "timeout", 0, "The `time` that --wait waits at most; 0s: for ever.")
	f.BoolVar(&force, "force", false,
		"Drain it although no other member takes work, or although it is not registered.")
	jsonFlag(cmd, &asJSON, "Print JSON.")
	orders(f, "deadline", "wait", "timeout", "force")
	if own {
		s.register(f)
	}
	cmd.ValidArgsFunction = a.completeIDs(s, "the id of one member")
	return cmd
}

// deadlineOf is that of the order to drain a member which stands; zero: there is none.
func deadlineOf(status actors.Status, member string) time.Time {
	for _, o := range status.Orders {
		if o.Kind == "drain" && o.Member == member {
			return o.Deadline
		}
	}
	return time.Time{}
}

// noMember is the failure of an order about a member that is not there.
func noMember(service string, status actors.Status, member string) string {
	there := "none are"
	if ids := memberIDs(status); len(ids) > 0 {
		there = foreigners(ids[:min(len(ids), 10)]) + " are"
		if len(ids) == 1 {
			there = foreign(ids[0]) + " is"
		}
		if len(ids) > 10 {
			there = fmt.Sprintf("%s and %d more are", foreigners(ids[:10]), len(ids)-10)
		}
	}
	return fmt.Sprintf("no member %q of service %q is registered; %s.%s Give --force to have the "+
		"order stand for when it comes", member, service, there, question(member,
		memberIDs(status)))
}

// lastWorker says what is wrong with draining the last member that takes work; empty: it is not.
func lastWorker(status actors.Status, member string) string {
	m := findMember(status.Members, member)
	if m == nil || !takesWork(*m) {
		return ""
	}
	for _, other := range status.Members {
		if other.ID != member && takesWork(other) {
			return ""
		}
	}
	return fmt.Sprintf("%s is the last member that takes work, and nobody would run its %s: give "+
		"--force to drain it all the same", member, count(m.Items, "item"))
}

// pinnedTo says which items a drain stops, for they are to run at that member and at no other.
func pinnedTo(member string, pins map[string]string) string {
	var items []string
	for _, item := range slices.Sorted(maps.Keys(pins)) {
		if pins[item] == member {
			items = append(items, item)
		}
	}
	switch len(items) {
	case 0:
		return ""
	case 1:
		return "1 item is pinned to it, which nobody runs then: " + foreign(items[0]) +
			". \"coordd unpin\" lets it go."
	}
	return fmt.Sprintf("%d items are pinned to it, which nobody runs then: %s. \"coordd unpin\" "+
		"lets them go.", len(items), foreigners(items[:min(len(items), 5)]))
}

// noRoomFor says which items of a member that is drained would run nowhere, for want of room. Empty
// also where the plan cannot be made: that is no reason to refuse the order.
func noRoomFor(ctx context.Context, o *actors.Operator, status actors.Status, member string,
	pins map[string]string) string {
	m := findMember(status.Members, member)
	if m == nil || slices.ContainsFunc(status.Members, func(other actors.StatusMember) bool {
		return other.ID != member && takesWork(other) && other.Capacity == 0
	}) {
		return "" // there is room for all
	}
	plan, err := o.Plan(ctx, actors.WhatIf{Drain: []string{member}})
	if err != nil {
		return ""
	}
	holders, err := o.Holders(ctx)
	if err != nil {
		return ""
	}
	here := map[string]bool{}
	for _, h := range holders.Members {
		for _, item := range h.Own {
			here[item] = h.ID == member
		}
	}
	_, waits := unplaced(plan.Unplaced)
	waits = slices.DeleteFunc(waits, func(u actors.PlanUnplaced) bool {
		return !here[u.Item] || pins[u.Item] != ""
	})
	if len(waits) == 0 {
		return ""
	}
	return fmt.Sprintf("The others have no room for %s, which nobody runs then.", namedCount(waits))
}

const (
	leftPoll  = time.Second      // how often the items of a drained member are counted
	leftLine  = 5 * time.Second  // at most so often a line says how many are left
	stuckLook = 10 * time.Second // without progress, how soon it is looked why
)

// awaitEmpty waits until a member has no items, and returns how many are left. A Consul that does
// not answer for a while is waited for as well.
func (a *app) awaitEmpty(ctx context.Context, o *actors.Operator, member string,
	timeout time.Duration, quiet bool) (left int, err error) {
	began := time.Now()
	show, finish := a.countdown(member, quiet)
	defer finish()
	known, total, why := false, 0, ""
	var moved time.Time // when it was found to be less than before, or why it is not
	for {
		n, stands, err := leftAt(ctx, o, member)
		switch {
		case err == nil:
			if !known || n != left {
				moved = time.Now()
			}
			left, known, total = n, true, max(total, n)
			show(left, total)
			if left == 0 {
				finish()
				if !quiet {
					_, err = fmt.Fprintf(a.out, "%s has no items.\n", member)
				}
				return 0, err
			}
			if !stands {
				return left, fmt.Errorf("%s has %s, and is drained no longer: somebody said "+
					"\"coordd undrain %s\"", member, count(left, "item"), member)
			}
		case ctx.Err() != nil:
			return left, waitEnded(member, left, "when the wait was interrupted")
		case !errors.Is(err, actors.ErrUnreachable):
			return left, err
		}
		if timeout > 0 && time.Since(began) >= timeout {
			return left, waitEnded(member, left, "after "+timeout.String())
		}
		if time.Since(moved) >= stuckLook {
			moved = time.Now()
			if now := whyStuck(ctx, o, ""); now != why && now != "" {
				finish()
				fmt.Fprintf(a.lines, "still %s at %s: %s\n", count(left, "item"), member, now)
				why = now
			}
		}
		select {
		case <-time.After(leftPoll):
		case <-ctx.Done():
			return left, waitEnded(member, left, "when the wait was interrupted")
		}
	}
}

// leftAt counts the items that a member has, and tells whether the order to drain it stands.
func leftAt(ctx context.Context, o *actors.Operator, member string) (left int, stands bool,
	err error) {
	if left, err = o.ItemsLeft(ctx, member); err != nil || left == 0 {
		return left, true, err
	}
	stands, err = o.IsDrained(ctx, member)
	return left, stands, err
}

func waitEnded(member string, left int, when string) error {
	return fmt.Errorf("%s has %s %s; the order stands, and \"coordd drain %s --wait\" waits on",
		member, count(left, "item"), when, member)
}

// whyStuck says what keeps a leader from moving anything, or from moving it to a member, unless
// that is empty.
func whyStuck(ctx context.Context, o *actors.Operator, to string) string {
	status, err := o.Status(ctx)
	switch {
	case err != nil:
		return "Consul does not answer"
	case status.Leader == nil:
		return "nobody leads"
	case status.Frozen:
		return `nothing moves until "coordd thaw"`
	case status.Brake != "":
		return foreign(status.Brake)
	}
	if why, until := unfit(status, to); to != "" && why != "" {
		return fmt.Sprintf("%s: it waits until %s %s", why, to, until)
	}
	if m := findMember(status.Members, to); m != nil && m.Capacity > 0 {
		return "its work takes long to stop, or " + to + " is full"
	}
	return "its work takes long to stop"
}

// countdown shows how many items are left: a bar on a terminal, lines elsewhere, nothing when
// quiet. Finish takes the bar away.
func (a *app) countdown(member string, quiet bool) (show func(left, total int), finish func()) {
	if quiet {
		return func(int, int) {}, func() {}
	}
	if f := a.terminal(); f != nil {
		shown := false
		return func(left, total int) {
				shown = true
				fmt.Fprintf(f, "\r%s %s\033[K", member, bar(total-left, total))
			}, func() {
				if shown {
					shown = false
					fmt.Fprint(f, "\r\033[K")
				}
			}
	}
	var last time.Time
	told := -1
	return func(left, _ int) {
		if left != told && left > 0 && (last.IsZero() || time.Since(last) >= leftLine) {
			last, told = time.Now(), left
			fmt.Fprintf(a.out, "%s left at %s\n", count(left, "item"), member)
		}
	}, func() {}
}

// bar draws how much of something is done.
func bar(done, total int) string {
	const width = 30
	full := width
	if total > 0 {
		full = width * done / total
	}
	return fmt.Sprintf("[%s%s] %d of %s given up", strings.Repeat("#", full),
		strings.Repeat(".", width-full), done, count(total, "item"))
}

// terminal returns standard error if it is one, else nil.
func (a *app) terminal() io.Writer {
	if !isTerminal(a.err) {
		return nil
	}
	return a.err
}
