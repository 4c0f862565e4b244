package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) workCommand() *cobra.Command {
	var s serviceFlags
	cmd := group(&cobra.Command{
		Use:   "work",
		Short: "Change and list the workload",
		Long: `Changes and lists the workload of a service: the items that its members share.
An item is an id without a slash, a payload that its work gets on standard
input, and a weight.`,
		Example: `  coordd work add device-1 device-2
  coordd work list`,
	}, a.workAdd(&s), a.workRemove(&s), a.workList(&s), a.workImport(&s),
		a.workSync(&s), a.workExport(&s))
	s.register(cmd.PersistentFlags())
	return cmd
}

func (a *app) workAdd(s *serviceFlags) *cobra.Command {
	var payload, payloadFile string
	var weight uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add ID...",
		Short: "Add items",
		Long: `Adds items to the workload, all with the same payload and weight. An item that
is there already gets this payload and weight; its work sees them when it is
next started, or soon, with run --on-change restart. All ids are checked before anything is written.

A service that has neither members nor work yet is named as new, on standard error,
with the others that there are: its name may be a slip.`,
		Example: `  coordd work add device-1 device-2
  coordd work add report --payload '{"every": "5m"}' --weight 3
  coordd work add report --payload-file report.json`,
		Args: atLeast(1, "the ids of the items to add"),
	}
	cmd.RunE = a.does(func(ctx context.Context, ids []string) error {
		value := []byte(payload)
		if payloadFile != "" {
			if payload != "" {
				return usage("give one of --payload and --payload-file")
			}
			var err error
			value, err = a.readAll(ctx, payloadFile)
			switch {
			case errors.Is(err, errInterrupted):
				return err
			case err != nil:
				return usage("--payload-file: %v", err)
			}
		}
		items := make([]actors.WorkInput, len(ids))
		for i, id := range ids {
			if weight == 0 {
				return usage("--weight 0: give 1 or more")
			}
			items[i] = actors.WorkInput{ID: id, Payload: value, Weight: weight}
		}
		if err := actors.CheckWork(items); err != nil {
			return err
		}
		o, err := s.reached(ctx)
		if err != nil {
			return err
		}
		said := newService(ctx, o, s.service)
		if err := o.AddWork(ctx, items...); err != nil {
			return err
		}
		a.warnOfNew(said)
		return a.tell(asJSON, changedWork{Added: ids}, "")
	})
	f := cmd.Flags()
	f.StringVar(&payload, "payload", "", "The payload, as `text`.")
	f.StringVar(&payloadFile, "payload-file", "",
		"The `file` that holds the payload; - means standard input.")
	f.Uint64Var(&weight, "weight", 1,
		"The `weight` of each item: how much of a member's share it takes; at least 1.")
	jsonFlag(cmd, &asJSON, "Print JSON: the items.")
	orders(f, "payload-file")
	return cmd
}

// changedWork is the JSON form of what was done to the workload.
type changedWork struct {
	Added    []string `json:"added,omitempty"`
	Removed  []string `json:"removed,omitempty"`
	Imported *int     `json:"imported,omitempty"` // items or keys
}

func (a *app) readAll(ctx context.Context, file string) ([]byte, error) {
	return reading(ctx, func() ([]byte, error) {
		in := a.in
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			in = f
		}
		return io.ReadAll(io.LimitReader(in, maxStdin))
	})
}

func (a *app) workRemove(s *serviceFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"remove"},
		Short:   "Remove items",
		Long: `Removes items from the workload: their owners stop working on them. Those that
exist are removed also when others do not; the exit code is then 1.`,
		Example: "  coordd work rm device-1 device-2",
		Args:    atLeast(1, "the ids of the items to remove"),
		RunE: a.does(func(ctx context.Context, ids []string) error {
			for _, id := range ids {
				if err := (actors.WorkInput{ID: id}).Check(); err != nil {
					return err
				}
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			if err := o.RemoveWork(ctx, ids...); err != nil {
				return err
			}
			return a.tell(asJSON, changedWork{Removed: ids}, "")
		}),
	}
	jsonFlag(cmd, &asJSON, "Print JSON: the items.")
	cmd.ValidArgsFunction = a.completeMany(s, "the id of one item")
	return cmd
}

// listed is the JSON form of one item.
type listed struct {
	ID     string `json:"id"`
	Weight uint64 `json:"weight"`
	// One of the two: JSON holds text only.
	Payload       string `json:"payload"`
	PayloadBase64 []byte `json:"payload_base64,omitempty"`
	Member        string `json:"member"` // empty: free
	State         string `json:"state"`  // an actors.ItemState
	Pinned        string `json:"pinned,omitempty"`
}

func (a *app) workList(s *serviceFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List items and who has them",
		Long: `Lists the items of the workload with their state, the member that has each of
them, their weight and the size of their payload. The states are those of "coordd items",
which says why as well. With --json the payload itself is printed.`,
		Example: `  coordd work list
  coordd work list --json`,
		Args: noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			work, err := o.ListWork(ctx)
			if err != nil {
				return err
			}
			_, states, err := o.Items(ctx)
			if err != nil {
				return err
			}
			state := make(map[string]actors.ItemStatus, len(states))
			for _, i := range states {
				state[i.ID] = i
			}
			items := make([]listed, len(work))
			for i, w := range work {
				// An item that was added between the two reads is free.
				now := cmp.Or(state[w.ID].State, actors.ItemFree)
				items[i] = listed{ID: w.ID, Weight: w.Weight, Member: state[w.ID].Member,
					State: string(now), Pinned: w.Pinned}
				if utf8.Valid(w.Payload) {
					items[i].Payload = string(w.Payload)
				} else {
					items[i].PayloadBase64 = w.Payload
				}
			}
			if asJSON {
				return printJSON(a.out, items)
			}
			t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "ITEM\tSTATE\tMEMBER\tWEIGHT\tPAYLOAD")
			for i, w := range items {
				fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d bytes\n", foreign(w.ID), w.State,
					dash(foreign(w.Member)), w.Weight, len(work[i].Payload))
			}
			return t.Flush()
		}),
	}
	jsonFlag(cmd, &asJSON, "Print JSON, with the payloads.")
	return cmd
}

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
