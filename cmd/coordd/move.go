package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) moveCommand() *cobra.Command {
	var s serviceFlags
	var noWait, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "move ITEM MEMBER",
		Short: "Move an item to a member and keep it there",
		Long: `Pins an item to a member and waits until that member has it; it ends with exit code 1
when somebody takes the pin back. Unlike "coordd pin" it refuses a member that cannot have
the item now, and an item that is not in the workload.

The pin stays: without it the leader may move this item or another one back for balance.
From then on the item runs on that member only, and waits for it when it is lost. Once you
do not mind any more where it runs, take the pin back with "coordd unpin ITEM": the item
then stays until its member has more than its share.`,
		Example: `  coordd move device-1 n2
  coordd move device-1 n2 --timeout 1m`,
		Args: exactly(2, "the ids of one item and one member"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			item, member := args[0], args[1]
			for _, id := range args {
				if err := actors.CheckID(id); err != nil {
					return err
				}
			}
			if timeout < 0 {
				return usage("--timeout %v: give 0s or more", timeout)
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			status, err := o.Status(ctx)
			if err != nil {
				return err
			}
			odd, err := unknownItem(ctx, o, item)
			switch {
			case err != nil:
				return err
			case odd != "":
				return noItem(ctx, o, s.service, item)
			case !canHave(status, member):
				why, _ := unfit(status, member)
				return fmt.Errorf("%q cannot have items now. %s. Nothing is changed: "+
					"\"coordd pin %s %s\" is an order that waits for it.%s", member, why, item,
					member, meant(status, member))
			}
			if err := o.Pin(ctx, item, member); err != nil {
				return err
			}
			g := given{Order: "move", Item: item, Member: member,
				said: "Moved: " + item + " runs on " + member + `, until "coordd unpin ` + item +
					`" lets it go.`}
			if noWait {
				g.said = "Pinned: " + item + " goes to " + member + "."
			} else if err := a.awaitOwner(ctx, o, item, member, timeout); err != nil {
				return err
			}
			return a.tellOrder(g, asJSON)
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&noWait, "no-wait", false, "Do not wait until the member has the item.")
	f.DurationVar(&timeout, "timeout", 0, "The `time` to wait at most; 0s: for ever.")
	jsonFlag(cmd, &asJSON, "Print JSON.")
	orders(f, "no-wait", "timeout")
	s.register(f)
	cmd.ValidArgsFunction = a.completeIDs(&s, "the ids of one item and one member")
	return cmd
}

// canHave tells whether a member is there and takes work.
func canHave(status actors.Status, member string) bool {
	m := findMember(status.Members, member)
	return m != nil && takesWork(*m)
}

// awaitOwner waits until a member has an item.
func (a *app) awaitOwner(ctx context.Context, o *actors.Operator, item, member string,
	timeout time.Duration) error {
	began, asked, looked := time.Now(), time.Now(), time.Now()
	for why := ""; ; {
		has, err := o.Owns(ctx, member, item)
		if has && err == nil {
			return nil
		}
		if err != nil && !errors.Is(err, actors.ErrUnreachable) {
			return err
		}
		if time.Since(looked) >= pinPoll {
			looked = time.Now()
			if pins, err := o.Pins(ctx); err == nil && pins[item] != member {
				return fmt.Errorf("%s is not at %s, and is pinned there no longer: somebody said "+
					"\"coordd unpin %s\", or pinned it elsewhere", item, member, item)
			}
		}
		if timeout > 0 && time.Since(began) >= timeout {
			if why := quarantined(ctx, o, item); why != "" {
				return fmt.Errorf("%s is not at %s after %v; the pin stands, and %s", item, member,
					timeout, why)
			}
			return fmt.Errorf("%s is not at %s after %v; the pin stands, and the item goes there "+
				"as soon as it can", item, member, timeout)
		}
		if time.Since(asked) >= stuckLook {
			asked = time.Now()
			if now := cmp.Or(quarantined(ctx, o, item), whyStuck(ctx, o, member)); now != why {
				why = now
				fmt.Fprintf(a.lines, "%s is not at %s yet: %s\n", item, member, why)
			}
		}
		select {
		case <-time.After(movePoll):
		case <-ctx.Done():
			return fmt.Errorf("the wait was interrupted; %s is pinned to %s", item, member)
		}
	}
}

// quarantined says why an item goes nowhere, if nobody is to run it; else it is empty.
func quarantined(ctx context.Context, o *actors.Operator, item string) string {
	e, err := o.Explain(ctx, item)
	if err != nil || e.State != actors.ItemQuarantined {
		return ""
	}
	return foreign(fmt.Sprintf("%s is quarantined, for %s: it waits until %s", item, e.Why,
		e.Next))
}

// movePoll is how often it is looked who has an item that is to move, pinPoll how often whether it
// is to move still.
const (
	movePoll = 200 * time.Millisecond
	pinPoll  = time.Second
)
