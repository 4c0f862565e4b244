package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) pinCommand(s *serviceFlags) *cobra.Command {
	return a.order(&cobra.Command{
		Use:   "pin ITEM MEMBER",
		Short: "Keep an item on one member",
		Long: `Orders that an item runs on one member and on no other. If the member is away, drained
or full, an item that runs elsewhere goes on there, and a free one waits. When the member
is lost, the item waits for it. Take it back with "coordd unpin"; "coordd pins" lists all.`,
		Example: "  coordd pin device-1 n2",
	}, s, 2, "the ids of one item and one member", func(ctx context.Context, o *actors.Operator,
		args []string) (given, error) {
		item, member := args[0], args[1]
		g := given{Order: "pin", Item: item, Member: member,
			said: "Pinned: " + item + " runs on " + member + " only."}
		status, err := o.Status(ctx)
		if err != nil {
			return g, err
		}
		odd, err := unknownItem(ctx, o, item)
		if err != nil {
			return g, err
		}
		g.note(odd)
		g.note(pinMeans(status, item, member))
		g.note(notNow(status))
		return g, o.Pin(ctx, item, member)
	})
}

// pinMeans says what becomes of an item that is pinned to a member which cannot have it now.
func pinMeans(status actors.Status, item, member string) string {
	why, until := unfit(status, member)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s: if %s runs elsewhere it goes on there, and if it is free nobody runs it, "+
		"until %s %s.%s", why, item, member, until, meant(status, member))
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
		Long: `Lets an item run anywhere again after "coordd pin". It stays where it is unless its
member has more than its share.`,
		Example: "  coordd unpin device-1",
	}, s, 1, "the id of one item", func(ctx context.Context, o *actors.Operator,
		args []string) (given, error) {
		g := given{Order: "unpin", Item: args[0],
			said: "Unpinned: " + args[0] + " may run anywhere."}
		pins, err := o.Pins(ctx)
		if err != nil {
			return g, err
		}
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
	At     string `json:"at"`     // that has it; empty: none
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
)

func (a *app) pinsCommand() *cobra.Command {
	var s serviceFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pins",
		Short: "List the pinned items",
		Long: `Lists the items that are pinned to a member, the member that has each of them now, and
what a pin waits for that is not kept.`,
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
			status, holders, _, err := o.Look(ctx)
			if err != nil {
				return err
			}
			list := pinList(pins, status, holders)
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
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", foreign(p.Item), foreign(p.Member),
					dash(foreign(p.At)), p.State)
			}
			return t.Flush()
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&asJSON, "json", false, "Print JSON.")
	s.register(f)
	return cmd
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
