package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/printable"
	"github.com/go-zookeeper/zk"
)

// electView is what --status prints as JSON.
type electView struct {
	Election   string               `json:"election"`
	State      string               `json:"state"` // open, ended or deleted
	Leader     *election.Candidate  `json:"leader"`
	Token      uint64               `json:"token,omitempty"`
	Candidates []election.Candidate `json:"candidates"`
}

// asks connects for --status and the orders, within the time that a person waits, and calls f.
func (a *app) asks(ctx context.Context, o electFlags, name string, f func(context.Context,
	*election.Election) error) error {
	a.printUnknown()
	o.level = "error" // the answer is what is asked for
	conn, where, err := o.connect(ctx, a)
	if err != nil {
		return err
	}
	defer conn.Close()
	log, err := a.logger(&o.logFlags)
	if err != nil {
		return err
	}
	e, err := election.New(conn, election.Config{Election: name, Logger: log})
	if err != nil {
		return usage("%v", err)
	}
	wait, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if _, err := e.Candidates(wait); err != nil {
		return o.unreachable(where, err)
	}
	return f(ctx, e)
}

// unreachable says what to do if the store cannot be asked.
func (o *electFlags) unreachable(where string, err error) error {
	switch {
	case len(o.zookeeper.Servers) == 0:
		return trouble(where, err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("ZooKeeper at %s denies it (%w): give the credentials of the user whom "+
			"the election belongs to with --zookeeper-auth-file",
			where, err)
	}
	return fmt.Errorf(
		"ZooKeeper at %s does not answer (%w): start it, or give its servers with --zookeeper",
		where, err)
}

func (a *app) electStatus(ctx context.Context, o electFlags, name string) error {
	return a.asks(ctx, o, name, func(ctx context.Context, e *election.Election) error {
		wait, cancel := context.WithTimeout(ctx, reachTimeout)
		defer cancel()
		candidates, err := e.Candidates(wait)
		if err != nil {
			return err
		}
		if _, err := e.Follow(wait); err != nil {
			return err
		}
		s, err := e.State().Wait(wait, func(s election.Status) bool {
			return s.Role == election.Observing || s.Role == election.Out
		})
		if err != nil {
			return fmt.Errorf("who leads cannot be told: %w", err)
		}
		v := electView{Election: name, State: "open", Token: s.Token, Candidates: candidates}
		switch {
		case s.Ended:
			v.State = "ended"
		case s.Deleted:
			v.State = "deleted"
		case s.Leader.ID != "":
			v.Leader = &s.Leader
		}
		if o.asJSON {
			if v.Candidates == nil {
				v.Candidates = []election.Candidate{}
			}
			return printJSON(a.out, v)
		}
		return printElection(a.out, v)
	})
}

func printElection(out io.Writer, v electView) error {
	fmt.Fprintf(out, "election  %s\n", foreign(v.Election))
	switch {
	case v.State == "ended":
		fmt.Fprintln(out, "state     ended for everyone; --delete makes room for a new one")
	case v.State == "deleted":
		fmt.Fprintln(out, "state     being deleted")
	case v.Leader == nil:
		fmt.Fprintln(out, "leader    nobody leads")
	default:
		fmt.Fprintf(out, "leader    %s (token %d)\n", foreign(v.Leader.Name), v.Token)
	}
	if len(v.Candidates) == 0 {
		_, err := fmt.Fprintln(out, "\nThere are no candidates.")
		return err
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CANDIDATE\tPRIORITY\tROLE\tADDRESS\tID")
	for _, c := range v.Candidates {
		role := "waits"
		switch {
		case v.State != "open":
			role = "leaves" // the leader too, which may not have stopped yet
		case v.Leader != nil && v.Leader.ID == c.ID:
			role = "leads"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", foreign(c.Name), c.Priority, role,
			foreign(c.Address), foreign(c.ID))
	}
	return w.Flush()
}

// electLine is what --follow prints as JSON, one for each message.
type electLine struct {
	At      time.Time           `json:"at"`
	What    election.What       `json:"what"`
	Role    election.Role       `json:"role"`
	Leader  *election.Candidate `json:"leader"`
	Token   uint64              `json:"token,omitempty"`
	Reason  string              `json:"reason,omitempty"`
	Ended   bool                `json:"ended,omitempty"`
	Deleted bool                `json:"deleted,omitempty"`
	Error   string              `json:"error,omitempty"`
}

func (a *app) electFollow(ctx context.Context, o electFlags, name string) error {
	o.level = "error"
	conn, _, err := o.connect(ctx, a)
	switch {
	case errors.Is(err, errInterrupted):
		return nil
	case err != nil:
		return err
	}
	defer conn.Close()
	log, err := a.logger(&o.logFlags)
	if err != nil {
		return err
	}
	e, err := election.New(conn, election.Config{Election: name, Logger: log})
	if err != nil {
		return usage("%v", err)
	}
	statuses, err := e.Follow(ctx)
	if err != nil {
		return err
	}
	for s := range statuses {
		if s.Role == election.Out && s.Resigned {
			break // interrupted
		}
		if err := a.printFollowed(o.asJSON, s); err != nil {
			return err
		}
	}
	e.Resign()
	<-e.Done()
	return e.Err()
}

func (a *app) printFollowed(asJSON bool, s election.Status) error {
	if asJSON {
		line := electLine{At: time.Now(), What: s.What, Role: s.Role, Token: s.Token,
			Reason: s.Reason, Ended: s.Ended, Deleted: s.Deleted}
		if s.Leader.ID != "" {
			line.Leader = &s.Leader
		}
		if s.Err != nil {
			line.Error = s.Err.Error()
		}
		text, err := json.Marshal(line)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s\n", plainJSON(text))
		return err
	}
	text := "nobody leads"
	switch {
	case s.Role == election.Out && s.Ended:
		text = "the election has ended"
	case s.Role == election.Out && s.Deleted:
		text = "the election was deleted"
	case s.Role == election.Out:
		text = s.String()
	case s.Role == election.Uncertain:
		text = "it cannot be told who leads: " + s.Reason
	case s.Leader.ID != "":
		text = fmt.Sprintf("%s leads (token %d)", foreign(s.Leader.Name), s.Token)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s\n", time.Now().Format("15:04:05.000"),
		printable.Line(text))
	return err
}

func (a *app) electOrder(ctx context.Context, o electFlags, name string) error {
	return a.asks(ctx, o, name, func(ctx context.Context, e *election.Election) error {
		if o.remove {
			if err := e.Delete(ctx); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.out, "deleted %s\n", name)
			return err
		}
		wait, cancel := context.WithTimeout(ctx, reachTimeout)
		defer cancel()
		if o.end {
			if err := e.End(wait); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.out, "ended %s\n", name)
			return err
		}
		err := e.HandOver(wait, o.handOver)
		if errors.Is(err, election.ErrNoCandidate) {
			return fmt.Errorf("%w (see --status)", err)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "asked the leader of %s to make way for %s\n", name, o.handOver)
		return err
	})
}
