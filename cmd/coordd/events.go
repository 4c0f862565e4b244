package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) eventsCommand() *cobra.Command {
	var since time.Duration
	var follow bool
	return a.ask(&cobra.Command{
		Use:   "events [ITEM|MEMBER]",
		Short: "Show what happened, and why",
		Long: `Shows what happened to the items, the members and the orders of a service, with the
cause, the oldest first: all of it, or what concerns one item or one member. Times are those of
the leader that wrote them, in this machine's time zone. The log is in Consul. It holds the last
256 transactions of leaders: some thousand moves.

With --follow it shows what happens from now on, until it is stopped; with --since also what
happened before. --json prints a list, with --follow one line for each event.`,
		Example: `  coordd events --since 1h
  coordd events device-1
  coordd events n2 --follow`,
	}, oneOf, func(f *pflag.FlagSet) {
		f.DurationVar(&since, "since", 0, "Only what happened within this `time`; 0s: all there is.")
		f.BoolVarP(&follow, "follow", "f", false, "Show what happens from now on.")
		orders(f, "follow")
	}, func(ctx context.Context, q query) error {
		about := strings.Join(q.args, "")
		log, err := q.EventLog(ctx)
		if err != nil {
			return err
		}
		events, last := log.All(), uint64(0)
		if n := len(events); n > 0 {
			last = events[n-1].Index
		}
		from := time.Time{}
		if since > 0 {
			from = time.Now().Add(-since)
		} else if follow {
			events = nil
		}
		known := len(operator.About(events, about, time.Time{}))
		events = operator.About(events, about, from)
		if !follow && q.asJSON {
			return printJSON(a.out, events)
		}
		if err := a.printEvents(events, q.asJSON); err != nil {
			return err
		}
		if !follow {
			if about != "" && known == 0 {
				fmt.Fprintf(a.lines, "%s: the log has nothing about %q\n", a.path, about)
			}
			return nil
		}
		for e := range q.FollowEvents(ctx, last) {
			err := a.printEvents(operator.About([]operator.Event{e}, about, time.Time{}), q.asJSON)
			if err != nil {
				return err
			}
		}
		return nil // it was to stop
	})
}

func (a *app) printEvents(events []operator.Event, asJSON bool) (err error) {
	for _, e := range events {
		if asJSON {
			err = printLine(a.out, e)
		} else {
			_, err = fmt.Fprintf(a.out, "%s %s\n", e.Time.Local().Format(time.DateTime),
				eventText(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventTexts are the events in plain words, by their kind. A word in braces stands for a part of
// the event; a part in brackets is left out where that part is empty.
var eventTexts = map[string]string{
	"leads":         "{to} leads[, after {from}]",
	"joined":        "{to} joined",
	"leaving":       "{from} is about to stop",
	"left":          "{from} has stopped[ with {held}]",
	"lost":          "{from} was lost[ with {held}]",
	"drained":       "{from} is drained by an order[ of {by}]",
	"undrained":     "{from} is no longer drained[, by {by}]",
	"pinned":        "{items} pinned to {to}[, by {by}]",
	"unpinned":      "{items} no longer pinned[, by {by}]",
	"preferred":     "{items} preferred at {to}[, by {by}]",
	"unpreferred":   "{items} no longer preferred anywhere[, by {by}]",
	"frozen":        "frozen: nothing is moved or placed[, by {by}]",
	"thawed":        "thawed[, by {by}]",
	"overridden":    "the brake is released by an order[ of {by}]",
	"brake-on":      "the brake is on: {why}",
	"brake-off":     "the brake is off",
	"granted":       "{items}[ {from}] -> {to}: {cause}",
	"taken-over":    "{items}[ {from}] -> {to}: {cause}",
	"revoked":       "{from} is giving up {items}: {cause}",
	"kept":          "{items} kept at {from} after all",
	"restarted":     "{items} to be restarted at {from} by an order[ of {by}]",
	"changed":       "{items} changed in the workload: {from} is told",
	"quarantined":   "{items} quarantined: its work failed too often at {from}[, the last time: {why}]",
	"unquarantined": "{items} no longer quarantined[: {cause}][, by an order to restart by {by}]",
	"erased":        "{items} no longer at {from}: {cause}",

	operator.EventsMore:   "and {more} more, for which the log had no room",
	operator.EventsMissed: "more happened than the log holds: some is missing here",
	"left/unannounced":    "{from} was killed, and what it ran has ended[; {held}]",
	"lost/unannounced":    "{from} was killed, and what it ran has ended[; {held}]",
	"joined/again":        "{to} joined again, with a new session",
	"of another version":  "{kind}[ {items}][ {from}][ {to}][ {why}][, by {by}]",
}

// eventText is an event in plain words.
func eventText(e operator.Event) string {
	held := ""
	if e.Holds > 0 {
		wait := (time.Duration(e.Wait) * time.Millisecond).Round(100 * time.Millisecond)
		held = fmt.Sprintf("%s, which wait for it for up to %v", count(e.Holds, "item"), wait)
	}
	kind := e.Kind
	switch {
	case e.Kind == "joined" && e.Why != "":
		kind = "joined/again"
	case eventTexts[e.Kind+"/"+e.Why] != "":
		kind = e.Kind + "/" + e.Why
	case eventTexts[e.Kind] == "":
		kind = "of another version"
	}
	cause := operator.WordsOf(e.Why).Event
	if cause == "" {
		cause = safe(e.Why)
	}
	parts := map[string]string{"kind": safe(e.Kind), "items": itemsText(e.Items),
		"from": safe(e.From), "to": safe(e.To), "by": safe(e.By), "why": safe(e.Why),
		"held": held, "more": fmt.Sprint(e.More)}
	parts["cause"] = fill(cause, parts)
	return fill(eventTexts[kind], parts)
}

// fill puts parts into a text of eventTexts.
func fill(text string, parts map[string]string) string {
	var b strings.Builder
	for text != "" {
		plain, rest, _ := strings.Cut(text, "[")
		optional, after, _ := strings.Cut(rest, "]")
		for i, piece := range []string{plain, optional} {
			missing := false
			for name, part := range parts {
				missing = missing || part == "" && strings.Contains(piece, "{"+name+"}")
				piece = strings.ReplaceAll(piece, "{"+name+"}", part)
			}
			if i == 0 || !missing {
				b.WriteString(piece)
			}
		}
		text = after
	}
	return b.String()
}
