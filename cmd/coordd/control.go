package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

// overridden is what an operator is told of an override.
const overridden = "Told the leader to go on with what is there now."

// given is an order that was given. Its JSON form is that of --json.
type given struct {
	Order  string   `json:"order"`
	Item   string   `json:"item,omitempty"`
	Items  []string `json:"items,omitempty"` // of an order about several
	Member string   `json:"member,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what is odd about it
	Left   *int     `json:"items_left,omitempty"`
	said   string
}

// note adds what is odd about an order; nothing when it is empty.
func (g *given) note(text string) {
	if text != "" {
		g.Notes = append(g.Notes, text)
	}
}

func (a *app) tellOrder(g given, asJSON bool) error {
	return a.tell(asJSON, g, strings.Join(append([]string{g.said}, g.Notes...), " "))
}

// tell prints what a command has done: v with --json, else said, if that is not empty.
func (a *app) tell(asJSON bool, v any, said string) (err error) {
	if asJSON {
		return printJSON(a.out, v)
	}
	if said != "" {
		_, err = fmt.Fprintln(a.out, said)
	}
	return err
}

// orderCommands are the commands that give orders to the leader. With s nil each has flags of its
// own for the service; else they are those of s, which a parent has.
func (a *app) orderCommands(s *serviceFlags) []*cobra.Command {
	return []*cobra.Command{a.drainCommand(s), a.undrainCommand(s), a.pinCommand(s),
		a.unpinCommand(s), a.freezeCommand(s), a.thawCommand(s), a.overrideCommand(s)}
}

// steerCommands are the commands that steer a service.
func (a *app) steerCommands() []*cobra.Command {
	return append(a.orderCommands(nil), a.moveCommand(), a.restartCommand(), a.controlCommand())
}

// controlCommand is how the orders were given before each had a command of its own.
func (a *app) controlCommand() *cobra.Command {
	var s serviceFlags
	cmd := group(&cobra.Command{
		Use:    "control",
		Hidden: true,
		Short:  "Give orders to the leader",
		Long: `Writes orders for the leader of a service. "coordd control drain" is the same as
"coordd drain", and so are the others.`,
		Example: `  coordd control drain n2
  coordd control undrain n2`,
	}, append(a.orderCommands(&s), a.order(&cobra.Command{Use: "obey", Hidden: true}, &s, 0, "",
		func(ctx context.Context, o *actors.Operator, _ []string) (given, error) {
			return given{Order: "override", said: overridden +
				` This order is called "coordd override" now.`}, o.Override(ctx)
		}))...)
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

// order makes c a command that gives one order about n ids, and says so.
func (a *app) order(c *cobra.Command, s *serviceFlags, n int, what string,
	give func(ctx context.Context, o *actors.Operator, args []string) (given, error),
) *cobra.Command {
	c.Args = noArguments
	if n > 0 {
		c.Args = exactly(n, what)
	}
	own := s == nil
	if own {
		s = new(serviceFlags)
	}
	var asJSON bool
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
		g, err := give(ctx, o, args)
		if err != nil {
			return err
		}
		return a.tellOrder(g, asJSON)
	})
	f := c.Flags()
	f.SortFlags = false
	jsonFlag(c, &asJSON, "Print JSON.")
	if own {
		s.register(f)
	}
	if n > 0 {
		c.ValidArgsFunction = a.completeIDs(s, what)
	}
	return c
}

func (a *app) freezeCommand(s *serviceFlags) *cobra.Command {
	return a.order(&cobra.Command{
		Use:   "freeze",
		Short: "Leave every item where it is",
		Long: `Orders the leader to plan nothing: every item stays where it is. The items of a
member that vanishes wait too, and new items stay free. So does an item that is on its way
already, once its member has given it up. Take it back with "coordd thaw".`,
		Example: "  coordd freeze",
	}, s, 0, "", func(ctx context.Context, o *actors.Operator, _ []string) (given, error) {
		g := given{Order: "freeze", said: `Frozen: nothing is moved or placed until "coordd thaw".`}
		return a.toAll(ctx, o, g, o.Freeze)
	})
}

func (a *app) thawCommand(s *serviceFlags) *cobra.Command {
	return a.order(&cobra.Command{
		Use:     "thaw",
		Short:   "Take back freeze",
		Long:    `Lets the leader plan again after "coordd freeze".`,
		Example: "  coordd thaw",
	}, s, 0, "", func(ctx context.Context, o *actors.Operator, _ []string) (given, error) {
		g := given{Order: "thaw", said: "Thawed: the leader plans again."}
		status, err := o.Status(ctx)
		if err != nil {
			return g, err
		}
		if !status.Frozen {
			g.note("It was not frozen.")
		}
		return g, o.Thaw(ctx)
	})
}

func (a *app) overrideCommand(s *serviceFlags) *cobra.Command {
	return a.order(&cobra.Command{
		Use:   "override",
		Short: "Release the brake: what has vanished is meant to be gone",
		Long: `A leader that sees most of the workload or most of the members vanish at once
puts its brake on: it changes no assignment and says so in its log. This tells it to
go on. Removing items with "coordd work rm" says it already.`,
		Example: "  coordd override",
	}, s, 0, "", func(ctx context.Context, o *actors.Operator, _ []string) (given, error) {
		return a.toAll(ctx, o, given{Order: "override", said: overridden}, o.Override)
	})
}

// toAll gives an order that names nobody: with a slip of the pen in the service's name it would be
// carried out all the same, by nobody. So that is said.
func (a *app) toAll(ctx context.Context, o *actors.Operator, g given,
	give func(context.Context) error) (given, error) {
	status, err := o.Status(ctx)
	if err != nil {
		return g, err
	}
	said := newService(ctx, o, status.Service)
	if err := give(ctx); err != nil {
		return g, err
	}
	a.warnOfNew(said)
	if status.Leader == nil {
		g.note(notNow(status))
	}
	return g, nil
}

func (a *app) undrainCommand(s *serviceFlags) *cobra.Command {
	return a.order(&cobra.Command{
		Use:     "undrain MEMBER",
		Short:   "Take back drain",
		Long:    `Lets a member have items again after "coordd drain".`,
		Example: "  coordd undrain n2",
	}, s, 1, "the id of one member", func(ctx context.Context, o *actors.Operator,
		args []string) (given, error) {
		g := given{Order: "undrain", Member: args[0],
			said: "Undrained: " + args[0] + " may have items again."}
		status, err := o.Status(ctx)
		if err != nil {
			return g, err
		}
		if !slices.Contains(status.Drained, args[0]) {
			g.note("It was not drained." + question(args[0], status.Drained))
		}
		return g, o.Undrain(ctx, args[0])
	})
}

// unknownItem warns of an order about an item that is not in the workload: it may be a slip, and
// it may be meant for later.
func unknownItem(ctx context.Context, o *actors.Operator, item string) (string, error) {
	_, err := o.Locate(ctx, item)
	if !errors.Is(err, actors.ErrUnknownItem) {
		return "", nil
	}
	items, err := o.ItemIDs(ctx)
	return "No such item is in the workload now; the order stands for when it comes." +
		question(item, items), err
}

// noItem is the failure of a command about an item that is not in the workload.
func noItem(ctx context.Context, o *actors.Operator, service, item string) error {
	ids, err := o.ItemIDs(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("no item %q is in the workload of service %q.%s", item, service,
		question(item, ids))
}

// unknownMember warns of an order about a member that is not there, for the same reason.
func unknownMember(status actors.Status, member string) string {
	if findMember(status.Members, member) != nil || findMember(status.Absent, member) != nil {
		return ""
	}
	return "No member of that id is registered now; the order stands for when it comes." +
		question(member, memberIDs(status))
}

// question asks whether one of names was meant, which are anybody's; empty: none is alike.
func question(name string, names []string) string {
	best := alike(name, names)
	for i := range best {
		best[i] = foreign(best[i])
	}
	asked := didYouMean(best)
	if asked == "" {
		return ""
	}
	return " D" + asked[1:]
}

func findMember(members []actors.StatusMember, id string) *actors.StatusMember {
	i := slices.IndexFunc(members, func(m actors.StatusMember) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &members[i]
}

func memberIDs(status actors.Status) []string {
	var ids []string
	for _, m := range append(status.Members, status.Absent...) {
		ids = append(ids, m.ID)
	}
	return ids
}

// takesWork tells whether the leader may give a member items.
func takesWork(m actors.StatusMember) bool {
	return m.Status == "alive" && !m.Idle && !m.Drained
}
