package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/cobra"
)

func (a *app) eventsCommand() *cobra.Command {
	var s serviceFlags
	var since time.Duration
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:     "events [ITEM|MEMBER]",
		Aliases: []string{"history"},
		Short:   "Show what happened, and why",
		Long: `Shows what happened to the items, the members and the orders of a service, with the
cause, the oldest first: all of it, or what concerns one item or one member. Times are those of the
leader that wrote it down, shown in this machine's time zone. The log is in Consul and holds the
last 256 transactions of leaders, whoever led: some thousand moves, or more.

With --follow it shows what happens from now on (with --since also what happened before), until it
is stopped. --json prints a list, with --follow one line for each event.

"coordd history" is the same command. "coordd run --history" is something else: a file with
everything that one member does, for "coordd verify".`,
		Example: `  coordd events --since 1h
  coordd events device-1
  coordd events n2 --follow`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("give one item or member at the most, not %d arguments", len(args))
			}
			return nil
		},
		RunE: a.does(func(ctx context.Context, args []string) error {
			about := strings.Join(args, "")
			if len(args) > 0 {
				if err := actors.CheckID(about); err != nil {
					return usage("%v", err)
				}
			}
			if since < 0 {
				return usage("--since is %v: give how long ago, such as 1h", since)
			}
			o, err := s.reached(ctx)
			if err != nil {
				return err
			}
			events, err := o.Events(ctx)
			if err != nil {
				return err
			}
			last := uint64(0)
			if n := len(events); n > 0 {
				last = events[n-1].Index
			}
			from := time.Time{}
			if since > 0 {
				from = time.Now().Add(-since)
			} else if follow {
				events = nil
			}
			known := actors.About(events, about, time.Time{})
			events = actors.About(events, about, from)
			if !follow && asJSON {
				return printJSON(a.out, events)
			}
			for _, e := range events {
				if err := printEvent(a.out, e, asJSON); err != nil {
					return err
				}
			}
			if !follow {
				if about != "" && len(known) == 0 {
					return a.notInTheLog(ctx, o, about)
				}
				return nil
			}
			for e := range o.FollowEvents(ctx, last) {
				for _, e := range actors.About([]actors.Event{e}, about, time.Time{}) {
					if err := printEvent(a.out, e, asJSON); err != nil {
						return err
					}
				}
			}
			return nil // it was to stop
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&since, "since", 0, "Only what happened within this time; 0s: all there is.")
	f.BoolVarP(&follow, "follow", "f", false, "Show what happens from now on.")
	jsonFlag(cmd, &asJSON, "Print JSON.")
	orders(f, "follow")
	s.register(f)
	cmd.ValidArgsFunction = a.completeEither(&s)
	return cmd
}

// notInTheLog says on standard error that the log has nothing about an id, and which item or member
// may have been meant. An item that is not in the workload, or a member that is not there, may be
// one that is older than the log.
func (a *app) notInTheLog(ctx context.Context, o *actors.Operator, about string) error {
	status, err := o.Status(ctx)
	if err != nil {
		return err
	}
	ids, err := o.ItemIDs(ctx)
	if err != nil {
		return err
	}
	ids = append(ids, memberIDs(status)...)
	_, err = fmt.Fprintf(a.lines, "%s: the log has nothing about %q.%s\n", a.path, about,
		question(about, ids))
	return err
}

func printEvent(w io.Writer, e actors.Event, asJSON bool) error {
	if asJSON {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e); err != nil {
			return err
		}
		_, err := w.Write(plainJSON(b.Bytes()))
		return err
	}
	_, err := fmt.Fprintf(w, "%s %s\n", e.Time.Local().Format(time.DateTime), eventText(e))
	return err
}

// eventText is an event in plain words.
func eventText(e actors.Event) string {
	items, from, to := itemsText(e.Items), foreign(e.From), foreign(e.To)
	by := ""
	if e.By != "" {
		by = ", by " + foreign(e.By)
	}
	order := "by an order"
	if e.By != "" {
		order += " of " + foreign(e.By)
	}
	switch e.Kind {
	case "leads":
		if e.From != "" {
			return to + " leads, after " + from
		}
		return to + " leads"
	case "joined":
		if e.Why != "" {
			return to + " joined again, with a new session"
		}
		return to + " joined"
	case "leaving":
		return from + " is about to stop"
	case "left", "lost":
		text := from + map[string]string{"left": " has stopped", "lost": " was lost"}[e.Kind]
		if e.Why == "unannounced" {
			text = from + " is gone, and was not seen to stop by itself (killed, perhaps); " +
				"what it ran has ended"
		}
		if e.Holds > 0 {
			text += " with " + count(e.Holds, "item") + ", kept for it for up to " +
				(time.Duration(e.Wait) * time.Millisecond).Round(100*time.Millisecond).String()
		}
		return text
	case "drained":
		return from + " is drained " + order
	case "undrained":
		return from + " is no longer drained" + by
	case "pinned":
		return items + " pinned to " + to + by
	case "unpinned":
		return items + " no longer pinned" + by
	case "preferred":
		return items + " preferred at " + to + by
	case "unpreferred":
		return items + " no longer preferred anywhere" + by
	case "frozen":
		return "frozen: nothing is moved or placed" + by
	case "thawed":
		return "thawed" + by
	case "overridden":
		return "no brake for what is gone by now, " + order
	case "brake-on":
		return "the brake is on: " + foreign(e.Why)
	case "brake-off":
		return "the brake is off"
	case "granted", "taken-over":
		if e.From == "" {
			return items + " -> " + to + ": " + cause(e)
		}
		return items + " " + from + " -> " + to + ": " + cause(e)
	case "revoked":
		return items + " to be given up by " + from + ": " + cause(e)
	case "kept":
		return items + " kept at " + from + " after all"
	case "restarted":
		return items + " to be started once more at " + from + ", " + order
	case "changed":
		return items + " changed in the workload: " + from + " is told"
	case "quarantined":
		return items + " quarantined: its work failed too often at " + from + ", the last time: " +
			foreign(e.Why)
	case "unquarantined":
		if e.Why != "" {
			return items + " no longer quarantined: " + cause(e)
		}
		return items + " no longer quarantined, by an order to restart" + by
	case "erased":
		return items + " no longer at " + from + ": " + cause(e)
	case actors.EventsMore:
		return fmt.Sprintf("and %d more, for which the log had no room", e.More)
	case actors.EventsMissed:
		return "more happened than the log holds: some is missing here"
	}
	text := foreign(e.Kind)
	for _, part := range []string{items, from, to, foreign(e.Why)} {
		if part != "" {
			text += " " + part
		}
	}
	return text + by
}

// cause is why an item moved.
func cause(e actors.Event) string {
	from := foreign(e.From)
	switch e.Why {
	case "new":
		return "free before"
	case "balance":
		return "balancing the load"
	case "drain":
		return from + " is drained"
	case "capacity":
		return from + " is over its capacity"
	case "pinned":
		return "pinned"
	case "preferred":
		return "preferred there"
	case "left":
		return from + " is gone, and what it ran has ended"
	case "lost":
		return from + " was lost"
	case "failing":
		return "its work failed too often at " + from + ", and is tried elsewhere"
	case "quarantined":
		return "its work failed too often"
	case "elsewhere":
		return "another member takes it"
	case "released":
		return "given up by " + from
	case "removed":
		return "no longer in the workload"
	case "unreadable":
		return "the assignment was unreadable"
	case "not-addressed":
		return "the assignment was addressed to nobody"
	case "cancelled":
		return "called back"
	}
	return foreign(e.Why)
}

// itemsText names up to three items, and says how many there are if there are more.
func itemsText(items []string) string {
	const most = 3
	if len(items) <= most {
		return foreigners(items)
	}
	return fmt.Sprintf("%s (%s, …)", count(len(items), "item"), foreigners(items[:most]))
}
