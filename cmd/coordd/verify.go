package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/cobra"
)

func (a *app) verifyCommand() *cobra.Command {
	var skew time.Duration
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Judge histories: was every item worked on by one member at a time",
		Long: `Reads the histories that members wrote with "coordd run --history FILE", all of one service
together, and proves that no item was worked on by two members at once, that no two
led at once, and that fencing tokens and epochs rose; or prints the shortest stretch
that shows where that is not so.

What is not in the files cannot be judged: give those of all members. The clocks of their hosts
differ: --skew says by how much at the most, and overlaps up to it do not count.

The rules: I1, one owner of an item at a time; I2, one leader, and tokens and epochs rise; I3, every item has an
owner again in time; I4, nothing is lost. "not judged" names what these files cannot tell (members do
not see when the faults are over, nor all of Consul's keys): it is no breach. "incomplete" names a member that could
not write its history for a while: what it did then is no breach either. A member that stood still (SIGSTOP,
a suspended host) led until then, if it leads no more within a second of waking up.

Exit code 0 means no breach, 1 that there is one, 2 that a file cannot be judged: it cannot be read, is given
twice, or was written while its host's clock was set back; or that there is nothing in them.`,
		Example: `  coordd verify m1.history m2.history m3.history
  coordd verify --skew 50ms /var/log/coordd/*.history`,
		Args: atLeast(1, "the files to read"),
	}
	cmd.Flags().DurationVar(&skew, "skew", 0, "how far the clocks of the hosts may be apart")
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		return a.verify(ctx, args, skew)
	})
	return cmd
}

func (a *app) verify(ctx context.Context, names []string, skew time.Duration) error {
	if skew < 0 {
		return usage("--skew %v: give a time of 0s or more", skew)
	}
	var all [][]history.Event
	found := false
	boots := map[string]string{} // process -> the file that tells of its beginning
	for _, name := range names {
		events, err := reading(ctx, func() ([]history.Event, error) {
			f, err := os.Open(name)
			if err != nil {
				return nil, usage("%v", err)
			}
			defer f.Close()
			events, err := history.Read(f)
			if err != nil {
				return nil, usage("%s: %v", name, err)
			}
			return events, nil
		})
		if err != nil {
			return err
		}
		if line, by := history.SetBack(events); by > 0 {
			return usage("%s: the clock of its host was set back by %v before %s: cut the file there, and judge each part by itself",
				name, by, line)
		}
		for _, e := range events {
			if e.Verb != history.Boot {
				continue
			}
			if before, twice := boots[e.Proc]; twice {
				return usage("%s tells of %s, and so does %s: give each history once", name, e.Proc,
					before)
			}
			boots[e.Proc] = name
		}
		all = append(all, events)
		found = found || len(events) > 0
	}
	if !found {
		return usage("there is no event in %s, so there is nothing to judge: give files that coordd run --history has written",
			strings.Join(names, ", "))
	}
	report := history.Check(history.Merge(all...), history.Options{Skew: skew})
	if _, err := fmt.Fprintln(a.out, report); err != nil {
		return err
	}
	if n := len(report.Breaches); n > 0 {
		return fmt.Errorf("the history breaks the rules %d times: see above", n)
	}
	return nil
}

// diary writes down what one member does, for verify. A nil diary writes nothing.
type diary struct {
	file  *os.File
	lines *history.Queued // nobody waits for the file
	rec   *history.Recorder
	proc  string
}

// openDiary opens the file for appending: histories of earlier runs stay in it.
func openDiary(name string) (*diary, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, usage("--history: %v", err)
	}
	if err := history.Mend(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("--history: %w", err)
	}
	d := &diary{file: f}
	d.lines = history.NewQueued(f, func() string { return d.proc })
	d.rec = history.NewRecorder(d.lines)
	return d, nil
}

func (d *diary) note(e history.Event) {
	e.Proc = d.proc
	d.rec.Add(e)
}

// work notes each start of work and its real end.
func (d *diary) work(work actors.Work) actors.Work {
	if d == nil || work == nil {
		return work
	}
	return func(ctx context.Context, item actors.Item) error {
		d.note(history.Event{Verb: history.Start, Item: item.ID, Token: item.Token})
		var ended time.Time
		defer func() {
			d.note(history.Event{At: ended, Verb: history.Stop, Item: item.ID,
				Token: item.Token})
		}()
		return work(context.WithValue(ctx, endKey{}, &ended), item)
	}
}

type endKey struct{}

// ended notes when work really ended, if that was before its function could return: the commands of
// a coordd that was frozen were ended by its guard.
func ended(ctx context.Context, at time.Time) {
	if end, ok := ctx.Value(endKey{}).(*time.Time); ok && at.Before(time.Now()) {
		*end = at
	}
}

// begin notes that the process runs, and returns the child that follows its leadership and its
// lease.
func (d *diary) begin(c *actors.Coordinator, log *slog.Logger) []supervisor.Child {
	if d == nil {
		return nil
	}
	d.proc = c.ID() + "#" + c.Settings().Process.Instance
	d.note(history.Event{Verb: history.Boot})
	return []supervisor.Child{{Name: "history", Run: func(ctx context.Context) error {
		return d.follow(ctx, c, log)
	}}}
}

func (d *diary) follow(ctx context.Context, c *actors.Coordinator, log *slog.Logger) error {
	leadership, session := c.Leadership().Subscribe(), c.Session().Subscribe()
	var epoch uint64
	told := false
	awake := stand{seen: time.Now()}
	pulse := time.NewTicker(standPulse)
	defer pulse.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pulse.C:
			awake.look(time.Now())
		case <-leadership.Changed():
			now := time.Now()
			awake.look(now)
			l := leadership.Take()
			switch {
			case l.Role == messages.Leading && l.Epoch != epoch:
				d.note(history.Event{Verb: history.Lead, Epoch: l.Epoch})
				epoch = l.Epoch
			case l.Role != messages.Leading && epoch != 0:
				d.note(history.Event{At: awake.ended(now), Verb: history.Unlead, Epoch: epoch})
				epoch = 0
			}
		case <-session.Changed():
			// with each renewal: work that is not seen to end counts up to the last of these
			session.Take()
			d.note(history.Event{Verb: history.Alive})
			if err := d.rec.Err(); err != nil && !told {
				told = true
				then, do := "nothing more is written to it, and the work goes on",
					"make room, and start this member anew"
				if errors.Is(err, history.ErrLost) {
					then, do = "it goes on once it is read, and says what is missing",
						"read it, or give a file on a faster disk"
				}
				log.Error("history-broken-off", "err", err, "then", then, "do", do)
			}
		}
	}
}

// end notes that all is over, and returns what kept the history from being written.
func (d *diary) end() error {
	if d == nil {
		return nil
	}
	d.note(history.Event{Verb: history.End})
	err := d.rec.Err()
	if !d.lines.Flush(flushLimit) && err == nil {
		err = fmt.Errorf("%w: it takes nothing", history.ErrLost)
	}
	if err = errors.Join(err, d.file.Close()); err != nil {
		return fmt.Errorf("--history: %w: not all is in it", err)
	}
	return nil
}
