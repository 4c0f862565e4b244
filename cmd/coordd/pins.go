package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) pinCommand(s *serviceFlags) *cobra.Command {
	var prefer bool
	cmd := a.order(&cobra.Command{
		Use:   "pin ITEM MEMBER",
		Short: "Keep an item on one member",
		Long: `Orders that an item runs on one member and on no other. If the member is away,
drained or full, an item that runs elsewhere goes on there, and a free one waits. When the member
is lost, the item waits for it. Take it back with "coordd unpin"; "coordd pins" lists all.

With --prefer the item runs on that member while it takes items and has room for those that
are pinned there, and on any other one else. When the member is lost or drained, the item
goes elsewhere; when it comes back, the item follows after the leader soak.`,
		Example: `  coordd pin device-1 n2
  coordd pin device-1 n2 --prefer`,
	}, s, 2, "the ids of one item and one member", func(ctx context.Context, o *actors.Operator,
		args []string) (given, error) {
		item, member := args[0], args[1]
		g := given{Order: "pin", Item: item, Member: member,
			said: "Pinned: " + item + " runs on " + member + " only."}
		give := o.Pin
		if prefer {
			g.Order, give = "prefer", o.Prefer
			g.said = "Preferred: " + item + " runs on " + member +
				" while that takes items and has room, and elsewhere else."
		}
		status, err := o.Status(ctx)
		if err != nil {
			return g, err
		}
		odd, err := unknownItem(ctx, o, item)
		if err != nil {
			return g, err
		}
		g.note(odd)
		if prefer {
			if why, until := unfit(status, member); why != "" {
				g.note(fmt.Sprintf("%s: it runs elsewhere until %s %s.%s", why, member, until,
					meant(status, member)))
			}
		} else {
			g.note(pinMeans(status, item, member))
		}
		g.note(notNow(status))
		return g, give(ctx, item, member)
	})
	cmd.Flags().BoolVar(&prefer, "prefer", false,
		"Let it run elsewhere while the member is away, drained or full.")
	orders(cmd.Flags(), "prefer")
	return cmd
}

// pinMeans says what becomes of an item that is pinned to a member which cannot have it now.
func pinMeans(status actors.Status, item, member string) string {
	why, until := unfit(status, member)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s: if %s runs elsewhere it goes on there, and if it is free nobody runs "+
		"it, until %s %s.%s", why, item, member, until, meant(status, member))
}

// unfit says why a member cannot have items now, and until what happens to it; empty: it can.
func unfit(status actors.Status, member string) (why, until string) {
	m := findMember(status.Members, member)
	switch {
	case m == nil && findMember(status.Absent, member) != nil:
		return "That member is gone", "is back"
	case m == nil:
		return "No member of that id is registered now", "comes"
	case m.Drained:
		return "That member is drained", "is undrained"
	case m.Idle:
		return "That member runs no items", "runs some"
	case !takesWork(*m):
		return "That member is " + m.Status, "takes items again"
	}
	return "", ""
}

// meant asks which member was meant by an id that no member has.
func meant(status actors.Status, member string) string {
	if findMember(status.Members, member) != nil || findMember(status.Absent, member) != nil {
		return ""
	}
	return question(member, memberIDs(status))
}

func (a *app) unpinCommand(s *serviceFlags) *cobra.Command {
	return a.order(&cobra.Command{
		Use:   "unpin ITEM",
		Short: "Take back pin",
		Long: `Lets an item run anywhere again after "coordd pin", with --prefer or without. It
stays where it is unless its member has more than its share.`,
		Example: "  coordd unpin device-1",
	}, s, 1, "the id of one item", func(ctx context.Context, o *actors.Operator,
		args []string) (given, error) {
		g := given{Order: "unpin", Item: args[0],
			said: "Unpinned: " + args[0] + " may run anywhere."}
		pins, err := o.Pins(ctx)
		if err != nil {
			return g, err
		}
		preferred, err := o.Preferred(ctx)
		if err != nil {
			return g, err
		}
		maps.Copy(pins, preferred)
		if _, pinned := pins[args[0]]; !pinned {
			g.note("It was not pinned." + question(args[0], slices.Collect(maps.Keys(pins))))
		}
		return g, o.Unpin(ctx, args[0])
	})
}

// pinned is the JSON form of one pin.
type pinned struct {
	Item   string `json:"item"`
	Member string `json:"member"` // that it is pinned to
	Prefer bool   `json:"prefer,omitempty"`
	At     string `json:"at"` // that has it; empty: none
	State  string `json:"state"`
}

// The states of a pin.
const (
	pinKept    = "kept"                     // the item is where it is pinned
	pinMoving  = "moving"                   // it is to go there
	pinAway    = "member not registered"    // it waits for the member
	pinDrained = "member drained"           // as above
	pinNoItem  = "no such item in workload" // the order waits for the item
	pinIdle    = "member runs no items"     // it waits
	pinFrozen  = "frozen"                   // nothing moves
	pinFull    = "elsewhere"                // preferred there, and not there though it could be
)

func (a *app) pinsCommand() *cobra.Command {
	var s serviceFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pins",
		Short: "List the pinned items",
		Long: `Lists the items that are pinned to a member, or preferred there, the member that has
each of them now, and what a pin waits for that is not kept.`,
		Example: "  coordd pins",
		Args:    noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			pins, err := o.Pins(ctx)
			if err != nil {
				return err
			}
			preferred, err := o.Preferred(ctx)
			if err != nil {
				return err
			}
			status, holders, _, err := o.Look(ctx)
			if err != nil {
				return err
			}
			list := append(pinList(pins, status, holders), preferList(preferred, status,
				holders)...)
			slices.SortFunc(list, func(x, y pinned) int { return strings.Compare(x.Item, y.Item) })
			if asJSON {
				return printJSON(a.out, list)
			}
			if len(list) == 0 {
				_, err := fmt.Fprintln(a.out, "No item is pinned.")
				return err
			}
			t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "ITEM\tPINNED TO\tAT\tSTATE")
			for _, p := range list {
				state := p.State
				if p.Prefer {
					state = "preferred: " + state
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", foreign(p.Item), foreign(p.Member),
					dash(foreign(p.At)), state)
			}
			return t.Flush()
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	jsonFlag(cmd, &asJSON, "Print JSON.")
	s.register(f)
	return cmd
}

// preferList is pinList for items that only prefer a member.
func preferList(pins map[string]string, status actors.Status, holders actors.Holders) []pinned {
	list := pinList(pins, status, holders)
	for i := range list {
		list[i].Prefer = true
		if list[i].State == pinMoving {
			list[i].State = pinFull
		}
	}
	return list
}

func pinList(pins map[string]string, status actors.Status, holders actors.Holders) []pinned {
	at, there := map[string]string{}, map[string]bool{}
	for _, h := range holders.Members {
		for _, item := range append(h.Own, h.Releasing...) {
			at[item], there[item] = h.ID, true
		}
	}
	for _, item := range holders.Free {
		there[item] = true
	}
	list := make([]pinned, 0, len(pins))
	for _, item := range slices.Sorted(maps.Keys(pins)) {
		p := pinned{Item: item, Member: pins[item], At: at[item], State: pinMoving}
		m := findMember(status.Members, p.Member)
		switch {
		case !there[item]:
			p.State = pinNoItem
		case m == nil:
			p.State = pinAway
		case m.Drained:
			p.State = pinDrained
		case p.At == p.Member:
			p.State = pinKept
		case m.Idle:
			p.State = pinIdle
		case status.Frozen:
			p.State = pinFrozen
		}
		list = append(list, p)
	}
	return list
}
