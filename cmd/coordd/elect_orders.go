package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	Runs       *runsView            `json:"runs,omitempty"` // of a command with a schedule
}

// runsView is what is known of the runs of a schedule.
type runsView struct {
	election.Runs
	Next    time.Time `json:"next"`
	Overdue int       `json:"overdue"` // periods that have begun since, and were not run
}

// observe connects for --status, --follow and the orders. Where is the store's address.
func (a *app) observe(o *electFlags, name string) (_ *election.Election, where string, done func(),
	_ error) {
	o.level = "error" // the answer is what is asked for
	log, err := a.logger(&o.logFlags)
	if err != nil {
		return nil, "", nil, err
	}
	conn, where, err := o.connect(log)
	if err != nil {
		return nil, "", nil, err
	}
	e, err := election.New(conn, election.Config{Election: name, Logger: log})
	if err != nil {
		conn.Close()
		return nil, "", nil, usage("%v", err)
	}
	return e, where, conn.Close, nil
}

// asks is observe for what is answered within the time that a person waits, which wait ends with.
func (a *app) asks(ctx context.Context, o electFlags, name string, f func(wait context.Context,
	e *election.Election, candidates []election.Candidate) error) error {
	e, where, done, err := a.observe(&o, name)
	if err != nil {
		return err
	}
	defer done()
	wait, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	candidates, err := e.Candidates(wait)
	if err != nil {
		return o.unreachable(where, err)
	}
	return f(wait, e, candidates)
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
	return a.asks(ctx, o, name, func(wait context.Context, e *election.Election,
		candidates []election.Candidate) error {
		if _, err := e.Follow(wait); err != nil {
			return err
		}
		s, err := e.State().Wait(wait, func(s election.Status) bool {
			return s.Role == election.Observing || s.Role == election.Out
		})
		if err != nil {
			return fmt.Errorf("who leads cannot be told: %w", err)
		}
		v := electView{Election: name, State: "open", Token: s.Token,
			Candidates: append([]election.Candidate{}, candidates...)}
		switch {
		case s.Ended:
			v.State = "ended"
		case s.Deleted:
			v.State = "deleted"
		case s.Leader.ID != "":
			v.Leader = &s.Leader
		}
		r, err := e.Runs(wait)
		if err != nil {
			return err
		}
		if schedule, err := election.ParseSchedule(r.Schedule); err == nil {
			v.Runs = &runsView{Runs: r, Next: schedule.Next(time.Now())}
			v.Runs.Overdue, _ = schedule.Missed(r.Since, v.Runs.Next)
		}
		if o.asJSON {
			return printJSON(a.out, v)
		}
		return printElection(a.out, v)
	})
}

func printElection(out io.Writer, v electView) error {
	said := "leader    nobody leads"
	switch {
	case v.State == "ended":
		said = "state     ended for everyone; --delete makes room for a new one"
	case v.State == "deleted":
		said = "state     being deleted"
	case v.Leader != nil:
		said = fmt.Sprintf("leader    %s (token %d)", safe(v.Leader.Name), v.Token)
	}
	fmt.Fprintf(out, "election  %s\n%s\n", safe(v.Election), said)
	if v.Runs != nil {
		printRuns(out, *v.Runs)
	}
	fmt.Fprintln(out)
	if len(v.Candidates) == 0 {
		_, err := fmt.Fprintln(out, "There are no candidates.")
		return err
	}
	w := table(out)
	fmt.Fprintln(w, "CANDIDATE\tPRIORITY\tROLE\tADDRESS\tID")
	for _, c := range v.Candidates {
		role := "waits"
		switch {
		case v.State != "open":
			role = "leaves" // the leader too, which may not have stopped yet
		case v.Leader != nil && v.Leader.ID == c.ID:
			role = "leads"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", safe(c.Name), c.Priority, role,
			safe(c.Address), safe(c.ID))
	}
	return w.Flush()
}

func printRuns(out io.Writer, v runsView) {
	last := "none yet"
	if run := v.Last; run.ID != "" {
		last = fmt.Sprintf("of %s by %s, ", run.Period.Format(time.RFC3339), safe(run.By))
		switch {
		case run.Err != "":
			last += "failed: " + safe(run.Err)
		case run.Ended.IsZero():
			last += "begun at " + run.Started.Format(time.RFC3339) + ", without an end yet"
		default:
			last += "done in " + run.Ended.Sub(run.Started).Round(time.Millisecond).String()
		}
	}
	fmt.Fprintf(out, "schedule  %s\nlast run  %s\nnext run  %s\n", safe(v.Schedule), last,
		v.Next.Format(time.RFC3339))
	if v.Missed > 0 {
		fmt.Fprintf(out, "missed    %d from %s on\n", v.Missed, v.MissedFrom.Format(time.RFC3339))
	}
	if v.Overdue > 0 {
		fmt.Fprintf(out, "overdue   %d: nobody leads, or the last run goes on\n", v.Overdue)
	}
}

func (a *app) electFollow(ctx context.Context, o electFlags, name string) error {
	e, _, done, err := a.observe(&o, name)
	if err != nil {
		return err
	}
	defer done()
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

// printFollowed prints one message: with JSON, as one line.
func (a *app) printFollowed(asJSON bool, s election.Status) error {
	if asJSON {
		line := map[string]any{"at": time.Now(), "what": s.What, "role": s.Role, "token": s.Token,
			"leader": nil, "reason": s.Reason, "ended": s.Ended, "deleted": s.Deleted}
		if s.Leader.ID != "" {
			line["leader"] = s.Leader
		}
		if s.Err != nil {
			line["error"] = s.Err.Error()
		}
		return printLine(a.out, line)
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
		text = fmt.Sprintf("%s leads (token %d)", safe(s.Leader.Name), s.Token)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s\n", time.Now().Format("15:04:05.000"),
		printable.Line(text))
	return err
}

func (a *app) electOrder(ctx context.Context, o electFlags, name string) error {
	return a.asks(ctx, o, name, func(wait context.Context, e *election.Election,
		_ []election.Candidate) error {
		said, err := "deleted "+name, error(nil)
		switch {
		case o.remove:
			err = e.Delete(ctx)
		case o.runNow:
			said, err = "asked the leader of "+name+" for a run now", e.RunNow(wait)
		case o.end:
			said, err = "ended "+name, e.End(wait)
		default:
			said = fmt.Sprintf("asked the leader of %s to make way for %s", name, o.handOver)
			if err = e.HandOver(wait, o.handOver); errors.Is(err, election.ErrNoCandidate) {
				err = fmt.Errorf("%w (see --status)", err)
			}
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.out, said)
		return err
	})
}
