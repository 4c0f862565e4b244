package main

import (
	"context"
	"fmt"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) locateCommand() *cobra.Command {
	var s serviceFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "locate ITEM",
		Short: "Show which member an item is at",
		Long: `Shows which member works on an item, the address that the member published, and
the fencing token of the work, separated by tabs. An item that is just being
moved, has no owner or is not in the workload is a failure that says so.

It reads Consul once. To send requests to the owners of items, run a member
with --route.`,
		Example: `  coordd locate device-1
  coordd locate device-1 --service billing --json`,
		Args: exactly(1, "the id of one item"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			if err := actors.CheckID(args[0]); err != nil {
				return usage("%v", err)
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			loc, err := o.Locate(ctx, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, loc)
			}
			_, err = fmt.Fprintf(a.out, "%s\t%s\t%d\n", foreign(loc.Member), foreign(loc.Address),
				loc.Token)
			return err
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	jsonFlag(cmd, &asJSON, "Print JSON.")
	s.register(f)
	cmd.ValidArgsFunction = a.completeIDs(&s, "the id of one item")
	return cmd
}
