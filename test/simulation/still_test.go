package simulation_test

import (
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// Actors that stand still, one at a time or all of a process at once. A bubble cannot stop a
// goroutine; what can be had without test code in the product is that whatever an actor calls
// outside of its member does not return: the host's transport, before a request leaves and after
// its answer has come, without regard to the request's context; the host's Lock; the host's
// Liveness. Between two such calls an actor goes on. The supervisor puts the actor's path on the
// context of its requests as a label. (In the package actors tests make each actor hang as it takes
// a message, and between any two of its calls.)

// forGood is the duration of an episode that ends when everything is stopped: well after all has to
// be well again.
const forGood = 24 * time.Hour

// The actors that reach out of their member. Those of the leader exist where it leads.
var (
	leadersActors = []string{
		"assigner", "member-watcher", "ack-watcher", "workload-watcher", "control-watcher",
	}
	everyActor = append([]string{
		"session-renewer", "record-watcher", "membership-keeper", "leader-watcher",
		"leader-tracker",
		"assignment-watcher", "worker-manager", "state-publisher",
	}, leadersActors...)
	// Calls out of an actor by other ways than a request
	otherWays = []string{"lock", "liveness"}
)

// still are troubles in which something of a process stands still.
var still = map[string]script{
	"hang": func(w *world, e episode) []action {
		var p *process
		acts := []action{{e.at, func() {
			if p = w.place(e.who[0]); slices.Contains(leadersActors, e.how) {
				p = w.leader()
			}
			if p == nil || e.dur >= forGood && !w.endures(p) {
				p = nil
				return
			}
			p.stand(e.how)
		}}}
		if e.dur >= forGood {
			return acts
		}
		return append(acts, action{e.at + e.dur, func() {
			if p != nil {
				p.goOn(e.how)
			}
		}})
	},
	// The host is suspended: the whole process with all its actors and its work, and its requests
	// leave when it resumes. Its timers cannot be stopped, so what they would have done it does at
	// once, and not later.
	"suspend": func(w *world, e episode) []action {
		return w.both(e, func(p *process) {
			if p.freeze() {
				p.stand(everything)
			}
		}, func(p *process) {
			p.thaw()
			p.goOn(everything)
		})
	},
	// The machine has too much to do: whole processes stand still again and again, for moments.
	"busy": func(w *world, e episode) []action {
		var acts []action
		for i, at := range e.ticks(300, 1500) {
			var hit []*process
			acts = append(acts, action{at, func() {
				for k, id := range w.plan.ids {
					if p := w.proc(id); p != nil && hash(fmt.Sprint(e.n, i, k))%2 == 0 {
						hit = append(hit, p)
						p.stand(everything)
					}
				}
			}}, action{at + time.Duration(20+hash(fmt.Sprint(e.n, i))%900)*time.Millisecond,
				func() {
					for _, p := range hit {
						p.goOn(everything)
					}
				}})
		}
		return acts
	},
}

// everything stands for all actors of a process.
const everything = "everything"

// stand is an actor that stands still.
type stand struct {
	actor string
	over  chan struct{}
}

// stand lets an actor stand still from its next call on.
func (p *process) stand(actor string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.leaving {
		return
	}
	p.stood = true
	p.stands = append(p.stands, stand{actor, make(chan struct{})})
	select {
	case p.still <- struct{}{}:
	default:
	}
}

// goOn ends what stand began.
func (p *process) goOn(actor string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.stands, func(s stand) bool { return s.actor == actor })
	if i >= 0 {
		close(p.stands[i].over)
		p.stands = slices.Delete(slices.Clone(p.stands), i, i+1)
	}
}

// hold returns when the actor that calls need not stand still any more, or its process is gone.
func (p *process) hold(actor string) {
	begin := time.Now()
	defer func() {
		if now := time.Now(); now.After(begin) && !p.hangs() {
			p.w.unfair(begin, now, actor+" of "+p.name()+" stood still")
		}
	}()
	for {
		var over chan struct{}
		p.mu.Lock()
		for _, s := range p.stands {
			if s.actor == everything || s.actor == actor {
				over = s.over
			}
		}
		p.mu.Unlock()
		if over == nil {
			return
		}
		if p.hangs() { // it gives up what it holds
			p.w.unfair(begin, begin.Add(p.w.stuck()), actor+" of "+p.name()+" hangs")
		}
		select {
		case <-over:
		case <-p.gone:
			return
		}
	}
}

// hangs tells whether an actor of the process stands still for good.
func (p *process) hangs() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.hanging == p
}

// holding returns a channel that is closed when what stands still goes on; nil: nothing does.
func (p *process) holding() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stands) == 0 {
		return nil
	}
	return p.stands[0].over
}

// actorOf is the name of the actor that makes a request; empty: none does.
func actorOf(ctx context.Context) string {
	path, _ := pprof.Label(ctx, "actor")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// endures chooses the one process of a run of which an actor hangs for good; false: there is one
// already.
func (w *world) endures(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hanging != nil {
		return false
	}
	w.hanging = p
	return true
}

// letGo ends what hangs: for good means until everything is stopped.
func (w *world) letGo(all bool) {
	w.mu.Lock()
	procs, hanging := slices.Clone(w.all), w.hanging
	w.mu.Unlock()
	for _, p := range procs {
		p.mu.Lock()
		var rest []stand
		for _, s := range p.stands {
			if !all && p == hanging && s.actor != everything {
				rest = append(rest, s)
				continue
			}
			close(s.over)
		}
		p.stands = rest
		p.mu.Unlock()
	}
}

// stuck is how long a member may hold on to what an actor of it does not see to: 45 s, and 64 s
// more in a long poll; and then it is lost like any other.
func (w *world) stuck() time.Duration { return 109*time.Second + 5*w.plan.settings.longest() }

// judgeHung wants the items evenly shared by those of which no actor hangs. The one of which one
// does may have its share, if nothing was asked of that actor; else it has none any more.
func (w *world) judgeHung() {
	if w.hanging == nil {
		return
	}
	loads, least, most := map[string]int{}, 1<<30, 0
	for _, id := range w.plan.ids {
		p := w.proc(id)
		if p == nil {
			continue
		}
		if p == w.hanging && !p.member.Session().Get().Holds(time.Now(), 0) {
			continue // what it says of its work is old: the lease-enforcer has ended it
		}
		n := p.member.Holdings().Get().Running()
		loads[p.name()] = n
		least, most = min(least, n), max(most, n)
	}
	if most > least+1 && !w.plan.settings.versions {
		w.fail("I3: the loads are uneven, and an actor of %s hangs: %v", w.hanging.name(), loads)
	}
}

// drawHang draws an actor that stands still: for a moment, for longer than its member may take to
// notice, or for good.
func drawHang(e *episode, dice interface{ IntN(int) int }) {
	actors := append(slices.Clone(everyActor), otherWays...)
	e.how = actors[dice.IntN(len(actors))]
	switch n := time.Duration(dice.IntN(1000)); dice.IntN(4) {
	case 0:
		e.dur = forGood
	case 1:
		e.dur = 45*time.Second + n*80*time.Millisecond
	default:
		e.dur = time.Second + n*39*time.Millisecond
	}
}
