package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

// overridden is what an operator is told of an override.
const overridden = "Told the leader to go on with what is there now."

func (a *app) controlCommand() *cobra.Command {
	var s serviceFlags
	order := func(c *cobra.Command, n int, what string, give func(ctx context.Context,
		o *actors.Operator, args []string) (string, error)) *cobra.Command {
		c.Args = noArguments
		if n > 0 {
			c.Args = exactly(n, what)
		}
		c.RunE = a.does(func(ctx context.Context, args []string) error {
			for _, id := range args { // a slip is told without asking Consul
				if err := actors.CheckID(id); err != nil {
					return err
				}
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			said, err := give(ctx, o.As(whoami()), args)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, said)
			return err
		})
		return c
	}
	cmd := group(&cobra.Command{
		Use:   "control",
		Short: "Give orders to the leader",
		Long: `Writes orders for the leader of a service. They stand until they are taken back,
whoever leads; "coordd status" shows them, and "coordd events" who gave them and when. Those to
freeze and to drain say by whom: the user's name and the host's are written to Consul.`,
		Example: `  coordd control drain n2
  coordd control undrain n2`,
	},
		order(&cobra.Command{
			Use:   "freeze",
			Short: "Leave every item where it is",
			Long: `Orders the leader to plan nothing: every item stays where it is. The items of a
member that vanishes wait too, and new items stay free. Take it back with "coordd control thaw".`,
			Example: "  coordd control freeze",
		}, 0, "", func(ctx context.Context, o *actors.Operator, _ []string) (string, error) {
			return "Frozen: nothing is moved or placed until \"coordd control thaw\".",
				o.Freeze(ctx)
		}),
		order(&cobra.Command{
			Use:     "thaw",
			Short:   "Take back freeze",
			Long:    "Lets the leader plan again after \"coordd control freeze\".",
			Example: "  coordd control thaw",
		}, 0, "", func(ctx context.Context, o *actors.Operator, _ []string) (string, error) {
			return "Thawed: the leader plans again.", o.Thaw(ctx)
		}),
		order(&cobra.Command{
			Use:   "override",
			Short: "Release the brake: what has vanished is meant to be gone",
			Long: `A leader that sees most of the workload or most of the members vanish at once
puts its brake on: it changes no assignment and says so in its log. This tells it to
go on. Removing items with "coordd work rm" says it already.`,
			Example: "  coordd control override",
		}, 0, "", func(ctx context.Context, o *actors.Operator, _ []string) (string, error) {
			return overridden, o.Override(ctx)
		}),
		order(&cobra.Command{Use: "obey", Hidden: true}, 0, "", func(ctx context.Context,
			o *actors.Operator, _ []string) (string, error) {
			return overridden + " This order is called \"coordd control override\" now.",
				o.Override(ctx)
		}),
		order(&cobra.Command{
			Use:   "drain MEMBER",
			Short: "Empty a member",
			Long: "Orders that a member gives up its items, all at once, and gets no new ones, " +
				"until \"coordd control undrain\".",
			Example: "  coordd control drain n2",
		}, 1, "the id of one member", func(ctx context.Context, o *actors.Operator,
			args []string) (string, error) {
			if err := o.Drain(ctx, args[0]); err != nil {
				return "", err
			}
			return "Drained: " + args[0] + " gives up its items and gets no new ones." +
				a.unknownMember(ctx, o, args[0]), nil
		}),
		order(&cobra.Command{
			Use:     "undrain MEMBER",
			Short:   "Take back drain",
			Long:    "Lets a member have items again after \"coordd control drain\".",
			Example: "  coordd control undrain n2",
		}, 1, "the id of one member", func(ctx context.Context, o *actors.Operator,
			args []string) (string, error) {
			return "Undrained: " + args[0] + " may have items again.", o.Undrain(ctx, args[0])
		}),
		order(&cobra.Command{
			Use:   "pin ITEM MEMBER",
			Short: "Keep an item on one member",
			Long: `Orders that an item runs on one member and on no other: while that member is
away, the item waits. Take it back with "coordd control unpin".`,
			Example: "  coordd control pin device-1 n2",
		}, 2, "the ids of one item and one member", func(ctx context.Context, o *actors.Operator,
			args []string) (string, error) {
			if err := o.Pin(ctx, args[0], args[1]); err != nil {
				return "", err
			}
			return "Pinned: " + args[0] + " runs on " + args[1] + " only." + a.unknownItem(ctx, o,
				args[0]) + a.unknownMember(ctx, o, args[1]), nil
		}),
		order(&cobra.Command{
			Use:     "unpin ITEM",
			Short:   "Take back pin",
			Long:    "Lets an item run anywhere again after \"coordd control pin\".",
			Example: "  coordd control unpin device-1",
		}, 1, "the id of one item", func(ctx context.Context, o *actors.Operator,
			args []string) (string, error) {
			return "Unpinned: " + args[0] + " may run anywhere.", o.Unpin(ctx, args[0])
		}),
	)
	s.register(cmd.PersistentFlags())
	return cmd
}

// whoami is who gives an order, for the event log: user@host, as far as either is known.
func whoami() string {
	name, host := "", ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = "@" + h
	}
	return name + host
}

// unknownItem warns of an order about an item that is not in the workload, for the same reason.
func (a *app) unknownItem(ctx context.Context, o *actors.Operator, item string) string {
	if _, err := o.Locate(ctx, item); errors.Is(err, actors.ErrUnknownItem) {
		return " No such item is in the workload now; the order stands for when it comes."
	}
	return ""
}

// unknownMember warns of an order about a member that is not there: it may be
// a slip, and it may be meant for later.
func (a *app) unknownMember(ctx context.Context, o *actors.Operator, member string) string {
	status, err := o.Status(ctx)
	if err != nil || slices.ContainsFunc(status.Members, func(m actors.StatusMember) bool {
		return m.ID == member
	}) {
		return ""
	}
	return " No member of that id is registered now; the order stands for when it comes."
}
