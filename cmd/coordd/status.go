package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

// reachTimeout is how long a command waits for a Consul that takes connections and does not answer:
// long enough for an election among its servers, short enough for a person. refusedTimeout is how
// long it waits for one that refuses them: as long as one takes that is being restarted.
const (
	reachTimeout   = 10 * time.Second
	refusedTimeout = 3 * time.Second
)

// reached returns the operators' side of the service once Consul has answered.
func (s *serviceFlags) reached(ctx context.Context) (*actors.Operator, error) {
	o, address, err := s.operator(ctx)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, refusedTimeout)
	err = o.Reach(wait)
	cancel()
	if errors.Is(err, actors.ErrUnreachable) && !errors.Is(err, syscall.ECONNREFUSED) {
		wait, cancel = context.WithTimeout(ctx, reachTimeout-refusedTimeout)
		err = o.Reach(wait)
		cancel()
	}
	if err != nil {
		return nil, trouble(address, err)
	}
	return o, nil
}

func (a *app) statusCommand() *cobra.Command {
	var s serviceFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the leader, the members and their load",
		Long: `Shows who leads a service, its members and how many items each of them has, and
how much of the workload is owned, on its way from one member to another
(releasing), or free.`,
		Example: `  coordd status
  coordd status --service billing --json`,
		Args: noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			status, err := o.Status(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, status)
			}
			return printStatus(a.out, status)
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&asJSON, "json", false, "Print JSON.")
	s.register(f)
	return cmd
}

func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(plainJSON(b.Bytes()))
	return err
}

func printStatus(w io.Writer, s actors.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "service\t%s\n", foreign(s.Service))
	if s.Leader == nil {
		fmt.Fprintf(t, "leader\tnobody leads\n")
	} else {
		fmt.Fprintf(t, "leader\t%s (epoch %d)\n", foreign(s.Leader.ID), s.Leader.Epoch)
	}
	fmt.Fprintf(t, "work\t%s: %d owned, %d releasing, %d free", count(s.Work.Total, "item"),
		s.Work.Owned, s.Work.Releasing, s.Work.Free)
	if s.Work.Removed > 0 {
		fmt.Fprintf(t, "; %d more removed and not given up yet", s.Work.Removed)
	}
	fmt.Fprintln(t)
	if s.Brake != "" {
		fmt.Fprintf(t, "brake\t%s\n", foreign(s.Brake))
	}
	if s.Frozen {
		fmt.Fprintf(t, "orders\tfrozen: nothing is moved or placed until \"coordd control thaw\"\n")
	}
	if len(s.Drained) > 0 {
		fmt.Fprintf(t, "orders\tdrained: %s\n", foreigners(s.Drained))
	}
	if s.Pins > 0 {
		fmt.Fprintf(t, "orders\t%s pinned\n", count(s.Pins, "item"))
	}
	for _, key := range s.Strange {
		fmt.Fprintf(t, "skipped\t%s: this version cannot read it\n", foreign(key))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.Members)+len(s.Absent) == 0 {
		_, err := fmt.Fprintf(w,
			"\nNo members are registered. Start one: coordd run --service %s --id ID\n",
			foreign(s.Service))
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MEMBER\tSTATUS\tITEMS\tRELEASING\tADDRESS")
	for _, m := range append(s.Members, s.Absent...) {
		status := foreign(m.Status)
		if s.Leader != nil && s.Leader.ID == m.ID {
			status += ", leads"
		}
		if m.Drained {
			status += ", drained"
		}
		if m.Idle {
			status += ", runs nothing"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", foreign(m.ID), status, m.Items, m.Releasing,
			foreign(m.Address))
	}
	return t.Flush()
}
