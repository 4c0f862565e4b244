package simulation_test

import (
	"context"
	"math/rand/v2"
	"time"
)

// duty is one run of a host's Lead function.
type duty struct {
	p     *process
	began time.Time
	froze int // how often its process had stood still by then
}

// lead is the Lead function: no other process is at its own meanwhile. Not held to that are those
// that were frozen since they began (what they do when they thaw nobody can foresee), and all of
// them where Consul has lost writes or a stranger has deleted the leader key.
func (p *process) lead(ctx context.Context) error {
	if !p.awake() || ctx.Err() != nil {
		return ctx.Err()
	}
	w := p.w
	p.mu.Lock()
	d := &duty{p: p, began: time.Now(), froze: p.froze}
	p.mu.Unlock()
	w.mu.Lock()
	others := w.duties
	w.duties = append(w.duties[:len(w.duties):len(w.duties)], d)
	lawless := w.lawless || w.plan.losesWrites()
	w.mu.Unlock()
	for _, o := range others {
		if !lawless && o.counts() {
			w.fail("Lead: %s begins while %s is at it since %v", p.name(), o.p.name(),
				time.Since(o.began))
		}
	}
	w.mark("leads", p.name(), "")
	defer func() {
		w.mark("led", p.name(), "")
		w.mu.Lock()
		defer w.mu.Unlock()
		var rest []*duty
		for _, o := range w.duties {
			if o != d {
				rest = append(rest, o)
			}
		}
		w.duties = rest
	}()
	select {
	case <-ctx.Done():
	case <-p.gone:
		return nil
	}
	lag := time.Duration(rand.New(rand.NewPCG(w.plan.seed, hash(p.name()))).Float64() * float64(
		w.plan.settings.lag))
	// A Lead that takes longer may do so within the lease: it must be over when that is.
	left := p.member.Session().Get().Lease.Left(time.Now()) - max(p.margin, w.plan.settings.margin)
	p.mu.Lock()
	lag = max(lag, min(p.slow, w.plan.settings.stopping()-time.Second, left))
	p.mu.Unlock()
	select {
	case <-time.After(lag):
	case <-p.gone:
	}
	return ctx.Err()
}

// counts tells whether the duty is one that must not be going on beside another.
func (d *duty) counts() bool {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	return !d.p.dead && d.p.froze == d.froze
}

// dutyBound is the time without a Lead function, held to what is promised for it.
type dutyBound struct {
	resigned time.Duration // after that of one that resigned
	lead     time.Duration // after that of one of which nothing is known
	strange  bool          // a stranger wrote the term key last: then nothing is
	at       map[string]bool
	free     gap
	told     bool
}

func (b *dutyBound) begins(proc string) { b.at[proc] = true }

// ends takes in that a function has ended, or that its process has.
func (b *dutyBound) ends(at time.Time, proc string) {
	if b.at[proc] {
		if delete(b.at, proc); len(b.at) == 0 {
			took := b.resigned
			if b.strange {
				took = b.lead
			}
			b.free = later(b.free, dues(at)(took, "the Lead of %s ended", proc))
			b.free.since = at
		}
	}
}

// until puts off by when there has to be one again.
func (b *dutyBound) until(g gap) {
	g.since = b.free.since
	b.free = later(b.free, g)
}

// look tells of a time without a Lead function that is longer than was promised.
func (o *owners) lookAtDuty(now time.Time) {
	b := &o.duty
	if len(b.at) > 0 || b.told || len(o.alive) == 0 || b.free.since.IsZero() ||
		now.Before(b.free.due) {
		return
	}
	if last := later(b.free, o.excuse(now)); now.After(last.due) {
		b.told = true
		o.w.fail("I3: nobody's Lead runs for %v, since %s; by %s one should have: %s",
			now.Sub(b.free.since).Round(time.Millisecond), clock(b.free.since), clock(last.due),
			last.why)
	}
}
