package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// given is an order that was given. Its JSON form is that of --json.
type given struct {
	Order  string   `json:"order"`
	Item   string   `json:"item,omitempty"`
	Items  []string `json:"items,omitempty"` // of an order about several
	Member string   `json:"member,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what keeps it from being carried out
	Left   *int     `json:"items_left,omitempty"`

	said string
	// wait waits until the order is carried out, and returns what is said then; nil: nothing waits.
	wait func(context.Context, *given) (string, error)
}

func (g *given) note(text string) {
	if text != "" {
		g.Notes = append(g.Notes, text)
	}
}

// order makes c a command that gives an order and says so.
func (a *app) order(c *cobra.Command, args ids, flags func(f *pflag.FlagSet),
	give func(ctx context.Context, q query) (given, error)) *cobra.Command {
	return a.ask(c, args, flags, func(ctx context.Context, q query) error {
		g, err := give(ctx, q)
		if err != nil {
			return err
		}
		g.Order = c.Name()
		if !q.asJSON {
			_, err = fmt.Fprintln(a.out, strings.Join(append([]string{g.said}, g.Notes...), " "))
		}
		if g.wait != nil && err == nil {
			g.said, err = g.wait(ctx, &g)
			if !q.asJSON && err == nil {
				_, err = fmt.Fprintln(a.out, g.said)
			}
		}
		if q.asJSON {
			return errors.Join(err, printJSON(a.out, g))
		}
		return err
	})
}

// notNow says what keeps the leader from carrying out an order at once; empty: nothing.
func notNow(status operator.Status) string {
	switch {
	case status.Leader == nil:
		return "Nobody leads now: it happens when somebody does."
	case status.Frozen:
		return `It is frozen: it happens after "coordd thaw".`
	case status.Brake != "":
		return "The leader's brake is on: it happens when that is off."
	}
	return ""
}

func (a *app) freezeCommand() *cobra.Command {
	return a.order(&cobra.Command{
		Use:   "freeze",
		Short: "Leave every item where it is",
		Long: `The leader moves and places nothing until "coordd thaw". The items of a member that
vanishes wait too, and new items stay free.`,
		Example: "  coordd freeze",
	}, noIDs, nil, func(ctx context.Context, q query) (given, error) {
		status, err := q.Status(ctx)
		if err != nil {
			return given{}, err
		}
		g := given{said: `Frozen: nothing is moved or placed until "coordd thaw".`}
		if status.Leader == nil {
			g.note(notNow(status))
		}
		return g, q.Freeze(ctx)
	})
}

func (a *app) thawCommand() *cobra.Command {
	return a.order(&cobra.Command{
		Use:     "thaw",
		Short:   "Take back freeze",
		Long:    `The leader moves and places items again after "coordd freeze".`,
		Example: "  coordd thaw",
	}, noIDs, nil, func(ctx context.Context, q query) (given, error) {
		return given{said: "Thawed: the leader plans again."}, q.Thaw(ctx)
	})
}

func (a *app) overrideCommand() *cobra.Command {
	return a.order(&cobra.Command{
		Use:   "override",
		Short: "Release the brake: what has vanished is gone for good",
		Long: `The leader puts its brake on when most of the workload or most of the members vanish
at once: it then changes no assignment. This order releases the brake. Removing items with
"coordd work rm" releases it too.`,
		Example: "  coordd override",
	}, noIDs, nil, func(ctx context.Context, q query) (given, error) {
		status, err := q.Status(ctx)
		if err != nil {
			return given{}, err
		}
		g := given{said: "Told the leader to go on with what is there now."}
		if status.Leader == nil {
			g.note(notNow(status))
		}
		return g, q.Override(ctx)
	})
}

func (a *app) drainCommand() *cobra.Command {
	var deadline, timeout time.Duration
	var wait, force bool
	return a.order(&cobra.Command{
		Use:   "drain MEMBER",
		Short: "Empty a member",
		Long: `The member gives up its items and gets no new ones, until "coordd undrain". The items
move within the leader's move budget (coordd run --move-budget). A leader that is drained hands
its leadership over. "coordd plan --drain MEMBER" shows beforehand what would move.

With --deadline the member gives up what is left at that time at once, whatever the budget is.
With --wait the command ends when the member has no items. It ends with exit code 1 when the order
is taken back, or after --timeout. The order stands then.

Draining the last member that takes work needs --force: nobody would run its items. So does a
member that is not registered: the order stands for when it comes.`,
		Example: `  coordd drain n2
  coordd drain n2 --deadline 10m --wait
  coordd drain n2 --deadline 0s --wait --timeout 1m`,
	}, aMember, func(f *pflag.FlagSet) {
		f.DurationVar(&deadline, "deadline", 0,
			"The `time` after which it gives up at once what is left. Without it: that of the "+
				"order that stands, or never.")
		f.BoolVar(&wait, "wait", false, "Wait until it has no items.")
		f.DurationVar(&timeout, "timeout", 0, "The `time` that --wait waits at most; 0s: for ever.")
		f.BoolVar(&force, "force", false,
			"Drain it although no other member takes work, or although it is not registered.")
		orders(f, "deadline", "wait", "timeout", "force")
	}, func(ctx context.Context, q query) (given, error) {
		member := q.args[0]
		if timeout > 0 && !wait {
			return given{}, usage("--timeout is how long --wait waits: give both")
		}
		status, err := q.Status(ctx)
		if err != nil {
			return given{}, err
		}
		if !force {
			if err := mayDrain(q.service, status, member); err != nil {
				return given{}, err
			}
		}
		pins, _, err := q.Pins(ctx)
		if err != nil {
			return given{}, err
		}
		g := given{Member: member,
			said: "Drained: " + member + " gives up its items and gets no new ones."}
		g.note(notNow(status))
		g.note(pinnedTo(member, pins))
		if wait {
			g.wait = func(ctx context.Context, g *given) (string, error) {
				return a.awaitEmpty(ctx, q, g, timeout)
			}
		}
		if q.flags.Changed("deadline") {
			return g, q.DrainBy(ctx, member, time.Now().Add(deadline))
		}
		return g, q.Drain(ctx, member)
	})
}

// takesWork tells whether the leader may give a member items.
func takesWork(m operator.StatusMember) bool {
	return m.Status == "alive" && !m.Idle && !m.Drained
}

// mayDrain says why a drain needs --force; nil: it does not.
func mayDrain(service string, status operator.Status, member string) error {
	m := findMember(status.Members, member)
	if m == nil {
		if findMember(status.Absent, member) == nil && !slices.Contains(status.Drained, member) {
			return fmt.Errorf("%w; --force has the order stand for when it comes",
				noMember(service, member))
		}
		return nil
	}
	if !takesWork(*m) || slices.ContainsFunc(status.Members, func(o operator.StatusMember) bool {
		return o.ID != member && takesWork(o)
	}) {
		return nil
	}
	return fmt.Errorf("%s is the last member that takes work, and nobody would run its %s: give "+
		"--force to drain it all the same", member, count(m.Items, "item"))
}

// pinnedTo says which items a drain stops: they may run at that member only.
func pinnedTo(member string, pins map[string]string) string {
	var items []string
	for item, at := range pins {
		if at == member {
			items = append(items, item)
		}
	}
	if len(items) == 0 {
		return ""
	}
	slices.Sort(items)
	return fmt.Sprintf("Pinned to it, so that nobody runs them until \"coordd unpin\": %s.",
		itemsText(items))
}

// awaitEmpty waits until a member has no items.
func (a *app) awaitEmpty(ctx context.Context, q query, g *given, timeout time.Duration) (string,
	error) {
	member := g.Member
	g.Left = new(int)
	err := a.await(ctx, q, timeout, func() (done bool, left string, err error) {
		n, err := q.ItemsLeft(ctx, member)
		if err != nil {
			return false, "", err
		}
		*g.Left = n
		left = fmt.Sprintf("%s left at %s", count(n, "item"), member)
		if n == 0 {
			return true, left, nil
		}
		stands, err := q.IsDrained(ctx, member)
		if err == nil && !stands {
			err = fmt.Errorf("%s, and it is drained no longer: somebody said \"coordd undrain %s\"",
				left, member)
		}
		return false, left, err
	})
	return member + " has no items.", err
}

const (
	waitPoll  = 500 * time.Millisecond // how often a wait looks
	stuckLook = 10 * time.Second       // without a change, how soon it says why
)

// await looks until an order is carried out, and says on standard error what is left. It waits for
// a Consul that does not answer.
func (a *app) await(ctx context.Context, q query, timeout time.Duration,
	look func() (done bool, left string, err error)) error {
	began, changed, last, told := time.Now(), time.Now(), "", ""
	for {
		done, left, err := look()
		switch {
		case done:
			return nil
		case err != nil && ctx.Err() == nil && !errors.Is(err, operator.ErrUnreachable):
			return err
		case err == nil && left != last:
			last, changed = left, time.Now()
			fmt.Fprintln(a.lines, left)
		}
		if timeout > 0 && time.Since(began) >= timeout {
			return fmt.Errorf("%s after %v; the order stands", last, timeout)
		}
		if time.Since(changed) >= stuckLook {
			changed = time.Now()
			if why := whyStuck(ctx, q); why != told {
				told = why
				fmt.Fprintf(a.lines, "still %s: %s\n", last, why)
			}
		}
		select {
		case <-time.After(waitPoll):
		case <-ctx.Done():
			return fmt.Errorf("%s when the wait was interrupted; the order stands", last)
		}
	}
}

// whyStuck says what keeps items from moving.
func whyStuck(ctx context.Context, q query) string {
	status, err := q.Status(ctx)
	if err != nil {
		return "Consul does not answer"
	}
	if why := notNow(status); why != "" {
		return why
	}
	return `work takes long to stop, or a member has no room: see "coordd explain ITEM"`
}

func (a *app) undrainCommand() *cobra.Command {
	return a.order(&cobra.Command{
		Use:     "undrain MEMBER",
		Short:   "Take back drain",
		Long:    `The member may have items again after "coordd drain".`,
		Example: "  coordd undrain n2",
	}, aMember, nil, func(ctx context.Context, q query) (given, error) {
		return given{Member: q.args[0], said: "Undrained: " + q.args[0] + " may have items again."},
			q.Undrain(ctx, q.args[0])
	})
}

func (a *app) pinCommand() *cobra.Command {
	var prefer, now bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "pin ITEM MEMBER",
		Short: "Keep an item on one member",
		Long: `The item runs on that member and on no other one, until "coordd unpin". While the
member is away, drained or full, an item that runs elsewhere goes on there, and a free one waits.
"coordd items --pinned" lists the pinned items.

With --now the command waits until the member has the item. It refuses a member that cannot have
the item now, and an item that is not in the workload. It ends with exit code 1 when the pin is
taken back, or after --timeout. The pin stands then.

With --prefer the item runs elsewhere while the member is away, drained or full. It comes back
after the leader soak.`,
		Example: `  coordd pin device-1 n2
  coordd pin device-1 n2 --now --timeout 1m
  coordd pin device-1 n2 --prefer`,
	}
	a.order(c, itemAt, func(f *pflag.FlagSet) {
		f.BoolVar(&now, "now", false, "Wait until the member has the item.")
		f.DurationVar(&timeout, "timeout", 0, "The `time` that --now waits at most; 0s: for ever.")
		f.BoolVar(&prefer, "prefer", false,
			"Let it run elsewhere while the member is away, drained or full.")
		orders(f, "now", "timeout", "prefer")
	}, func(ctx context.Context, q query) (given, error) {
		item, member := q.args[0], q.args[1]
		status, items, err := q.Items(ctx)
		if err != nil {
			return given{}, err
		}
		there := slices.ContainsFunc(items, func(i operator.ItemStatus) bool {
			return i.ID == item
		})
		why := unfit(status, member)
		switch {
		case timeout > 0 && !now:
			return given{}, usage("--timeout is how long --now waits: give both")
		case now && !there:
			return given{}, noItem(q.service, item)
		case now && why != "":
			return given{}, fmt.Errorf("%q cannot have items now: %s. Nothing is changed", member,
				why)
		}
		g := given{Item: item, Member: member,
			said: "Pinned: " + item + " runs on " + member + " only."}
		if !there {
			g.note("No such item is in the workload now: the order stands for when it comes.")
		}
		if why != "" {
			g.note("It waits: " + why + ".")
		}
		g.note(notNow(status))
		if now {
			g.wait = func(ctx context.Context, _ *given) (string, error) {
				return item + " runs on " + member + ".", a.awaitOwner(ctx, q, timeout)
			}
		}
		if prefer {
			g.said = "Preferred: " + item + " runs on " + member + " while it can."
			return g, q.Prefer(ctx, item, member)
		}
		return g, q.Pin(ctx, item, member)
	})
	c.MarkFlagsMutuallyExclusive("now", "prefer")
	return c
}

// unfit says why a member cannot have items now; empty: it can.
func unfit(status operator.Status, member string) string {
	m := findMember(status.Members, member)
	switch {
	case m == nil:
		return "no member of that id is registered"
	case !takesWork(*m):
		return "that member takes no items"
	}
	return ""
}

// awaitOwner waits until a member has the item that is pinned to it.
func (a *app) awaitOwner(ctx context.Context, q query, timeout time.Duration) error {
	item, member := q.args[0], q.args[1]
	return a.await(ctx, q, timeout, func() (bool, string, error) {
		left := item + " is not at " + member
		has, err := q.Owns(ctx, member, item)
		if has || err != nil {
			return has, left, err
		}
		pins, _, err := q.Pins(ctx)
		if err == nil && pins[item] != member {
			err = fmt.Errorf("%s, and is pinned there no longer: somebody said \"coordd unpin %s\"",
				left, item)
		}
		return false, left, err
	})
}

func (a *app) unpinCommand() *cobra.Command {
	return a.order(&cobra.Command{
		Use:   "unpin ITEM",
		Short: "Take back pin",
		Long: `The item may run anywhere again after "coordd pin". It stays where it is unless its
member has more than its share.`,
		Example: "  coordd unpin device-1",
	}, oneItem, nil, func(ctx context.Context, q query) (given, error) {
		return given{Item: q.args[0], said: "Unpinned: " + q.args[0] + " may run anywhere."},
			q.Unpin(ctx, q.args[0])
	})
}

func (a *app) restartCommand() *cobra.Command {
	var member string
	return a.order(&cobra.Command{
		Use:   "restart ITEM... | --member MEMBER",
		Short: "Stop the work of items and start it again where it is",
		Long: `The work of the items, or of all items of a member, is stopped and started again at
the same member, under the same grant and with the payload that each item has by then. An item
that nobody runs is refused, unless it is quarantined (coordd run --max-restarts): the order ends
the quarantine, and the item is placed like a new one.

The leader passes the order on. While it is frozen, or its brake is on, it does so afterwards.`,
		Example: `  coordd restart device-1 device-2
  coordd restart --member n2`,
	}, anyItems, func(f *pflag.FlagSet) {
		f.StringVar(&member, "member", "", "The `member` all of whose work is started again.")
		orders(f, "member")
	}, func(ctx context.Context, q query) (given, error) {
		if (member == "") == (len(q.args) == 0) {
			return given{}, usage("give either the ids of items or --member")
		}
		status, items, err := q.Items(ctx)
		if err != nil {
			return given{}, err
		}
		ids := slices.Compact(slices.Sorted(slices.Values(q.args)))
		g := given{Member: member, Items: ids}
		n := len(ids)
		if member != "" {
			m := findMember(status.Members, member)
			if m == nil {
				return g, noMember(q.service, member)
			}
			n, err = m.Items, q.RestartMember(ctx, member)
		} else if err = restartable(q.service, items, ids); err == nil {
			err = q.Restart(ctx, ids...)
		}
		g.said = "Told the leader: the work of " + count(n, "item") + " starts once more."
		g.note(notNow(status))
		return g, err
	})
}

// restartable refuses items that nobody runs.
func restartable(service string, items []operator.ItemStatus, ids []string) error {
	for _, id := range ids {
		i := slices.IndexFunc(items, func(i operator.ItemStatus) bool { return i.ID == id })
		switch {
		case i < 0:
			return noItem(service, id)
		case items[i].Member == "" && items[i].State != operator.ItemQuarantined:
			return fmt.Errorf("%s has no owner now: there is no work to start again", id)
		}
	}
	return nil
}
