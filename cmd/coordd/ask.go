package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reachTimeout is how long a command waits for a Consul that takes connections and does not answer:
// long enough for an election among its servers, short enough for a person. refusedTimeout is how
// long it waits for a Consul that refuses connections: as long as a restart of Consul takes.
const (
	reachTimeout   = 10 * time.Second
	refusedTimeout = 3 * time.Second
)

// reached returns the operators' side of the service once Consul has answered.
func (s *serviceFlags) reached(ctx context.Context) (*operator.Client, error) {
	client, address, err := s.client()
	if err != nil {
		return nil, err
	}
	o, err := operator.New(client, s.service)
	if err != nil {
		return nil, usage("--%v", err)
	}
	wait, cancel := context.WithTimeout(ctx, refusedTimeout)
	err = o.Reach(wait)
	cancel()
	if errors.Is(err, operator.ErrUnreachable) && !errors.Is(err, syscall.ECONNREFUSED) {
		wait, cancel = context.WithTimeout(ctx, reachTimeout-refusedTimeout)
		err = o.Reach(wait)
		cancel()
	}
	if err != nil {
		return nil, trouble(address, err)
	}
	return o.As(whoami()), nil
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

// trouble turns an error of Consul's into one line that says what to do.
func trouble(consul string, err error) error {
	if !errors.Is(err, operator.ErrUnreachable) {
		return err
	}
	if errors.Is(err, operator.ErrTooManyConns) {
		return fmt.Errorf("Consul at %s refuses this connection (%w, 200 by default for all "+
			"processes of a host): raise limits.http_max_conns_per_client of that Consul agent, "+
			"or run less on this host", consul, operator.ErrTooManyConns)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	} else if errors.Is(err, operator.ErrNoAnswer) {
		err = operator.ErrNoAnswer
	}
	return fmt.Errorf("Consul at %s does not answer (%w): start it, or give its address with "+
		"--consul or CONSUL_HTTP_ADDR", consul, err)
}

// query is one question to a service, or one order.
type query struct {
	*operator.Client
	service string
	args    []string
	flags   *pflag.FlagSet
	asJSON  bool
}

// ids says what the arguments of a command are: kinds of ids, in their order.
type ids struct {
	kinds []string // item, member, or either
	least int      // how many are needed
	many  bool     // any number of the last kind
}

var (
	noIDs    = ids{}
	oneItem  = ids{kinds: []string{"item"}, least: 1}
	anyItems = ids{kinds: []string{"item"}, many: true}
	oneMore  = ids{kinds: []string{"item"}, least: 1, many: true}
	oneOf    = ids{kinds: []string{"either"}}
	aMember  = ids{kinds: []string{"member"}, least: 1}
	itemAt   = ids{kinds: []string{"item", "member"}, least: 2}
)

// kind is what the argument at a position is; empty: there may be none.
func (i ids) kind(at int) string {
	if i.many {
		at = 0
	}
	if at < len(i.kinds) {
		return i.kinds[at]
	}
	return ""
}

func (i ids) check(_ *cobra.Command, args []string) error {
	switch n := len(args); {
	case n < i.least:
		return usage("give the id of each %s", strings.Join(i.kinds, " and "))
	case len(i.kinds) == 0 && n > 0:
		return usage("it takes no arguments, and was given %q", args[0])
	case n > len(i.kinds) && !i.many:
		return usage("give %s at the most, not %d arguments", count(len(i.kinds), "id"), n)
	}
	for _, id := range args {
		if err := operator.CheckID(id); err != nil {
			return err
		}
	}
	return nil
}

// ask makes c a command that asks a service, or gives it an order. It registers the flags, what a
// shell completes, and what the command does once Consul has answered.
func (a *app) ask(c *cobra.Command, args ids, flags func(f *pflag.FlagSet),
	do func(ctx context.Context, q query) error) *cobra.Command {
	var s serviceFlags
	var asJSON bool
	f := c.Flags()
	f.SortFlags = false
	if flags != nil {
		flags(f)
	}
	f.BoolVar(&asJSON, "json", false, "Print JSON.")
	s.register(f)
	c.Args = args.check
	c.ValidArgsFunction = a.complete(&s, args.kind)
	for _, name := range []string{"member", "drain", "without"} {
		if f.Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, a.complete(&s, func(int) string {
				return "member"
			}))
		}
	}
	c.RunE = a.does(func(ctx context.Context, args []string) error {
		o, err := s.reached(ctx)
		if err != nil {
			return err
		}
		return do(ctx, query{o, s.service, args, f, asJSON})
	})
	return c
}

// completeLimit is how long a shell waits for Consul to complete a word.
const completeLimit = 2 * time.Second

// completable are the ids that a shell may put on a command line as they are. Any user who writes
// work chooses ids: Enter would carry out what is in "$(...)".
var completable = regexp.MustCompile(`^[\pL\pN_.,:/@%+][\pL\pN_.,:/@%+=-]*$`)

// complete completes ids. Without Consul it completes nothing.
func (a *app) complete(s *serviceFlags, kind func(at int) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
		defer cancel()
		what := kind(len(args))
		if what == "" || a.settings(cmd) != nil {
			return nil, none
		}
		o, err := s.reached(ctx)
		if err != nil {
			return nil, none
		}
		var found []string
		if what != "member" {
			found, _ = o.ItemIDs(ctx)
		}
		if what != "item" {
			members, _ := o.MemberIDs(ctx)
			found = append(found, members...)
		}
		return slices.DeleteFunc(found, func(id string) bool {
			return !completable.MatchString(id)
		}), none
	}
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

// nobodyThere is what is said of a service without members.
func nobodyThere(service string) string {
	return fmt.Sprintf("No members are registered. Start one: coordd run --service %s --id ID",
		safe(service))
}

func findMember(members []operator.StatusMember, id string) *operator.StatusMember {
	i := slices.IndexFunc(members, func(m operator.StatusMember) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &members[i]
}

// noMember is the failure of a command about a member that is not there.
func noMember(service, member string) error {
	return fmt.Errorf("no member %q of service %q is registered: see \"coordd status\"", member,
		service)
}

// noItem is the failure of a command about an item that is not in the workload.
func noItem(service, item string) error {
	return fmt.Errorf("no item %q is in the workload of service %q: see \"coordd items\"", item,
		service)
}
