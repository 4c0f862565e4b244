package election

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

// Runs is what the store keeps of the runs of a duty that has a schedule.
type Runs struct {
	// Schedule is that of the last leader.
	Schedule string `json:"schedule"`
	// Since: no period that has begun by then is run any more.
	Since time.Time `json:"since"`
	// Last is the newest run. Without an ID there was none yet.
	Last Run `json:"last"`
	// Missed counts the periods from MissedFrom on that were not run when a later one was: nobody
	// led, or a run went on for longer than its period.
	Missed     int       `json:"missed,omitempty"`
	MissedFrom time.Time `json:"missed_from,omitzero"`
	// Asked is the order of an operator to run now; empty: there is none.
	Asked string `json:"asked,omitempty"`
}

// Run is one run.
type Run struct {
	ID      string    `json:"id"`
	Period  time.Time `json:"period"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Err says why it failed, or was cut short; empty: it has not, or it goes on.
	Err   string `json:"error,omitempty"`
	By    string `json:"by"`              // the candidate
	Order string `json:"order,omitempty"` // of the operator who has asked for it
}

const (
	// roundPause bounds the time between two looks at the record, which may have an order to run
	// now, and at the clock, which may be set meanwhile.
	roundPause = 3 * time.Second
	// recordPatience is how long the end of a run may take to be written.
	recordPatience = 5 * time.Second
)

// noEnd is the error of a run that has ended without a word in the record.
const noEnd = "no end is recorded: its leader was lost, or had to stop"

// rounds runs the duty of a leader once in each period.
type rounds struct {
	*shell
	led      Status
	schedule Schedule
	notBegun func() error
}

// due changes the record to what is next: the run id, or a note. It is asked between two runs. It
// tells whether that changes anything. A period is due that began after r.Since. So a leader whose
// clock is behind runs none again.
func (d *rounds) due(r *Runs, id string) (changed bool) {
	was, now := *r, d.cfg.Now().UTC()
	if r.Schedule == "" && d.schedule.every == 0 {
		r.Since = now // the first time is still to come
	}
	r.Schedule = d.schedule.text
	if r.Last.ID != "" && r.Last.Ended.IsZero() {
		r.Last.Ended, r.Last.Err = now, noEnd
	}
	period := d.schedule.Last(now)
	if period.After(r.Since) {
		if n, first := d.schedule.Missed(r.Since, period); n > 0 {
			r.Missed, r.MissedFrom = n, first
		}
	} else if r.Asked == "" {
		return *r != was
	}
	if far := d.schedule.Next(d.schedule.Next(now)); now.After(r.Since) ||
		r.Asked != "" && r.Since.After(far) {
		r.Since = now // a clock that was far ahead is forgotten by an order
	}
	r.Last = Run{ID: id, Period: period, Started: now, By: d.cfg.Name, Order: r.Asked}
	r.Asked = ""
	return true
}

// run runs what is due, until ctx ends.
func (d *rounds) run(ctx context.Context) error {
	told := false
	for ctx.Err() == nil {
		id, was := rand.Text(), Runs{}
		r, err := d.backend.Runs(ctx, d.led.Token, func(r *Runs) bool {
			if r.Last.ID == id {
				return false // an answer was lost
			}
			was = *r
			return d.due(r, id)
		})
		switch {
		case err == nil && (was != r || !told):
			told = true
			d.tell(was, r)
		case err != nil && ctx.Err() == nil:
			d.log.Warn("runs-not-recorded", "err", err, "then", "nothing runs before they are")
		}
		if err == nil && r.Last.ID == id {
			d.once(ctx, r.Last)
			continue
		}
		now := d.cfg.Now()
		timer := time.NewTimer(min(roundPause, d.schedule.Next(now).Sub(now)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// tell logs what is new in the record.
func (d *rounds) tell(was, is Runs) {
	if last := was.Last; last.ID != "" && last.Ended.IsZero() {
		d.log.Warn("run-cut-short", "period", last.Period, "by", last.By, "then",
			"it is not run again")
	}
	if is.Missed > 0 && is.MissedFrom != was.MissedFrom {
		d.log.Warn("runs-missed", "count", is.Missed, "first", is.MissedFrom)
	}
	now := d.cfg.Now()
	if ahead := is.Since.Sub(now); ahead > time.Minute {
		d.log.Warn("clocks-differ", "last_run_by", is.Last.By, "ahead", ahead.Round(time.Second),
			"then", "nothing runs before", "at", is.Since)
	}
	d.log.Info("next-run", "at", d.schedule.Next(now))
}

// once runs the duty for the newest run of the record, and writes down how it ended.
func (d *rounds) once(ctx context.Context, run Run) {
	led := d.led
	log := d.log.With("period", run.Period)
	log.Info("run-started", "token", led.Token)
	err := d.notBegun()
	if led.Period = run.Period; err == nil {
		err = d.cfg.Lead(ctx, led)
	}
	end := func(r *Runs) bool {
		if r.Last.ID != run.ID || !r.Last.Ended.IsZero() {
			return false
		}
		if r.Last.Ended = d.cfg.Now().UTC(); err != nil {
			r.Last.Err = err.Error()
		}
		return true
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer cancel()
	if _, unwritten := d.backend.Runs(soon, led.Token, end); unwritten != nil {
		log.Warn("run-end-not-recorded", "err", unwritten)
	}
	if err != nil {
		log.Warn("run-failed", "err", err, "then", "it is not run again")
	} else {
		log.Info("run-ended", "took", d.cfg.Now().Sub(run.Started))
	}
}

// Runs reads what the store keeps of the runs of a duty with a schedule.
func (e *Election) Runs(ctx context.Context) (Runs, error) {
	return e.backend.Runs(ctx, 0, func(*Runs) bool { return false })
}

// RunNow asks the leader to run its duty within 3 s, or the next one as soon as it leads. If the
// newest period has not been run, this is its run. RunNow returns when the order is written.
// ErrInvalid: no leader of this election has had a schedule.
func (e *Election) RunNow(ctx context.Context) error {
	id := rand.Text()
	r, err := e.backend.Runs(ctx, 0, func(r *Runs) bool {
		if r.Schedule == "" || r.Asked != "" || r.Last.Order == id {
			return false
		}
		r.Asked = id
		return true
	})
	if err == nil && r.Schedule == "" {
		err = fmt.Errorf("run %s: %w: no leader of it has had a schedule yet", e.cfg.Election,
			ErrInvalid)
	}
	return err
}
