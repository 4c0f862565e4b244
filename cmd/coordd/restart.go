package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) restartCommand() *cobra.Command {
	var s serviceFlags
	var member string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restart ITEM... | --member MEMBER",
		Short: "Stop the work of items and start it again where it is",
		Long: `Orders that the work of items, or of all items of a member, is stopped and started
again at the same member, without a move: with the payload that each item has by then, and the
same fencing token. All ids are checked before anything is written; an item that nobody
runs is refused, unless it is quarantined (coordd run --max-restarts): that ends with this
order, and the item is placed like a new one.

The leader passes the order on; while it is frozen or holds its brake, afterwards. An order
takes effect once, on what the member was given before it: work that moves meanwhile is
started anew anyhow. Members of versions before this one do not heed it.`,
		Example: `  coordd restart device-1 device-2
  coordd restart --member n2`,
		RunE: a.does(func(ctx context.Context, items []string) error {
			slices.Sort(items)
			items = slices.Compact(items)
			switch {
			case member == "" && len(items) == 0:
				return usage("give the ids of items, or --member")
			case member != "" && len(items) > 0:
				return usage("give either the ids of items or --member")
			}
			ids := items
			if member != "" {
				ids = []string{member}
			}
			for _, id := range ids {
				if err := actors.CheckID(id); err != nil {
					return err
				}
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			status, holders, _, err := o.Look(ctx)
			if err != nil {
				return err
			}
			g := given{Order: "restart", Member: member, Items: items}
			n := len(items)
			if member != "" {
				m := findMember(status.Members, member)
				if m == nil {
					return fmt.Errorf("no member %q is registered.%s", member,
						question(member, memberIDs(status)))
				}
				n, err = m.Items, o.RestartMember(ctx, member)
			} else if err = restartable(holders, items); err == nil {
				err = o.Restart(ctx, items...)
			}
			if err != nil {
				return err
			}
			g.said = "Told the leader: the work of " + count(n, "item") + " starts once more."
			g.note(notNow(status))
			return a.tellOrder(g, asJSON)
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&member, "member", "", "The `member` all of whose work is restarted.")
	jsonFlag(cmd, &asJSON, "Print JSON.")
	orders(f, "member")
	s.register(f)
	cmd.ValidArgsFunction = a.completeMany(&s, "the id of one item")
	// it fails only for a flag that is not there
	_ = cmd.RegisterFlagCompletionFunc("member", a.completeIDs(&s, "the id of one member"))
	return cmd
}

// restartable refuses items that nobody runs.
func restartable(holders actors.Holders, items []string) error {
	own, moving, all := map[string]bool{}, map[string]string{}, slices.Clone(holders.Free)
	for _, h := range holders.Members {
		for _, id := range h.Own {
			own[id] = true
		}
		for _, id := range h.Releasing {
			moving[id] = h.ID
		}
		all = append(append(all, h.Own...), h.Releasing...)
	}
	for _, id := range items {
		switch {
		case own[id], slices.Contains(holders.Quarantined, id):
		case moving[id] != "":
			return fmt.Errorf("%s is given up by %s just now, and starts anew where it goes", id,
				foreign(moving[id]))
		case slices.Contains(holders.Free, id):
			return fmt.Errorf("%s has no owner now: there is no work to restart", id)
		default:
			return fmt.Errorf("no item %q is in the workload.%s", id, question(id, all))
		}
	}
	return nil
}

// notNow says what keeps the leader from carrying out an order at once; empty: nothing.
func notNow(status actors.Status) string {
	switch {
	case status.Leader == nil:
		return "Nobody leads now: it happens when somebody does."
	case status.Frozen:
		return `It is frozen: it happens after "coordd thaw".`
	case status.Brake != "":
		return "The leader holds its brake: it happens when that is off."
	}
	return ""
}
