package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/history"
)

// process is one run of a member.
type process struct {
	w      *world
	id     string
	n      int
	began  time.Time
	link   *link
	member *actors.Coordinator
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	dead    bool
	leaving bool
	killed  bool
	lost    atomic.Bool       // with its machine
	death   string            // around its next write
	froze   int               // how often
	thawed  chan struct{}     // while frozen
	gone    chan struct{}     // closed when it is killed
	running map[string]uint64 // its work, with the token
	under   map[string]string // its work, with the session that it began under
	known   map[string]string // its work, with the payload that it knows of
	session facts.Session     // the one that it has now
	before  facts.Session     // the one that it had before
	orphans int               // of that, what goes on when it was killed
	buried  chan struct{}     // closed when nothing does any more
	stands  []stand           // actors that stand still
	stood   bool              // one has
	still   chan struct{}     // tells that one begins to

	stubborn string        // how its work is: see the episode
	slow     time.Duration // that its Lead takes to end

	// What its clock makes of its settings: see slowDown.
	twin              bool
	told, ttl, margin time.Duration
	toldLease, lease  time.Duration
}

func (p *process) name() string { return fmt.Sprintf("%s#%d", p.id, p.n) }

// lock is what the process says of its lock. One in four has it some time after it was registered.
func (p *process) lock() string {
	p.hold("lock")
	if late := time.Duration(hash(p.name())%20) * time.Second; late < 5*time.Second &&
		time.Since(p.began) < late {
		return ""
	}
	return actors.NoLock
}

// awake waits until the process is not frozen; false: it is dead.
func (p *process) awake() bool {
	for {
		p.mu.Lock()
		dead, thawed := p.dead, p.thawed
		p.mu.Unlock()
		if dead {
			return false
		}
		if thawed == nil {
			return true
		}
		select {
		case <-thawed:
		case <-p.gone:
		}
	}
}

func (p *process) frozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thawed != nil && !p.dead
}

// mortal tells how r kills the process; empty: it does not.
func (p *process) mortal(r *request) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.death == "" || r.URL.Path != "/v1/txn" {
		return ""
	}
	how := p.death
	p.death = ""
	return how
}

// freeze lets the process stand still; false: it does already, or ends.
func (p *process) freeze() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.leaving || p.thawed != nil {
		return false // its actors would count the time that it stands against those who are to stop
	}
	p.w.rec.Add(history.Event{Verb: history.Freeze, Proc: p.name()})
	p.thawed = make(chan struct{})
	p.froze++
	return true
}

func (p *process) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thawed == nil {
		return
	}
	if !p.dead {
		p.w.rec.Add(history.Event{Verb: history.Thaw, Proc: p.name()})
	}
	close(p.thawed)
	p.thawed = nil
}

// note records an event of a process that lives.
func (p *process) note(e history.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return
	}
	switch e.Verb {
	case history.Start:
		p.running[e.Item] = e.Token
	case history.Stop:
		delete(p.running, e.Item)
	}
	e.Proc = p.name()
	p.w.rec.Add(e)
}

// work is the work function: it does something at each thaw before it has
// looked at anything, and takes its time to stop.
func (p *process) work(ctx context.Context, item actors.Item) error {
	if !p.awake() || ctx.Err() != nil {
		return ctx.Err()
	}
	at := history.Event{Item: item.ID, Token: item.Token}
	say := func(v history.Verb) {
		at.Verb = v
		p.note(at)
	}
	say(history.Start)
	p.w.delivered(item)
	defer p.knows(item.ID, item.Payload)()
	session := p.begin(item.ID)
	r := rand.New(rand.NewPCG(p.w.plan.seed, hash(p.name()+item.ID)+item.Grant))
	var crash <-chan time.Time
	if r.IntN(10) == 0 && p.w.plan.profile != "gentle" {
		t := time.NewTimer(time.Duration(r.IntN(60)) * time.Second)
		defer t.Stop()
		crash = t.C
	}
	how := p.temper()
	if how == "fails" || how == "panics" {
		t := time.NewTimer(time.Duration(r.IntN(300)) * time.Millisecond)
		defer t.Stop()
		crash = t.C
	}
	if s := p.w.plan.settings; s.sick > 0 && hash(item.ID)%uint64(s.sick) == 0 {
		t := time.NewTimer(time.Duration(r.IntN(300)) * time.Millisecond)
		defer t.Stop()
		crash = t.C
	}
	crashed := false
	for end := false; !end; {
		select {
		case <-ctx.Done():
			end = true
		case payload := <-item.Changes:
			p.knows(item.ID, payload)
		case <-crash: // after the faults nothing fails any more
			crashed = !p.w.calm.Load()
			end = crashed
		case <-p.gone:
			return nil
		}
	}
	if p.frozen() {
		if !p.awake() {
			return nil
		}
		say(history.Step)
	} else if lag := time.Duration(r.Float64() * float64(p.w.plan.settings.lag)); lag > 0 {
		select {
		case <-time.After(lag):
		case <-p.gone:
			return nil
		}
		if p.frozen() {
			if !p.awake() {
				return nil
			}
			say(history.Step)
		}
	}
	if hash(fmt.Sprint(p.w.plan.seed, p.name(), item.ID, item.Grant))%16 == 0 ||
		!crashed && p.temper() == "ignores" {
		p.ignore(session)
	}
	if crashed {
		p.w.mark("crashed", p.name(), item.ID)
	}
	say(history.Stop)
	if crashed && how == "panics" {
		panic("the work panics")
	}
	if crashed {
		return errors.New("the work failed")
	}
	return ctx.Err()
}

// begin notes under which session an item's work begins, and returns it.
func (p *process) begin(item string) string {
	s := p.member.Session().Get()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under[item] = s.ID
	return s.ID
}

func (p *process) temper() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stubborn
}

// ignore is work that was told to stop and goes on, for up to 25 s, or as long as its
// member's lease allows: what it works on must not be anyone else's meanwhile.
func (p *process) ignore(session string) {
	if p.w.plan.profile == "gentle" {
		return
	}
	until := time.Now().Add(25 * time.Second)
	for time.Now().Before(until) && !p.w.calm.Load() && !p.isLeaving() && !p.frozen() {
		if s := p.member.Session().Get(); s.ID != session ||
			s.Lease.Left(time.Now()) < max(p.margin, 200*time.Millisecond) {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-p.gone:
			return
		}
	}
}

// follow writes down when the member leads. While an actor of it stands still, which may be the one
// that says so, that counts only as long as the lease does.
func (p *process) follow() {
	cursor, sessions := p.member.Leadership().Subscribe(), p.member.Session().Subscribe()
	leads, session := uint64(0), ""
	for {
		var look <-chan time.Time
		if leads != 0 && p.holding() != nil {
			look = time.After(250 * time.Millisecond)
		}
		epoch := leads
		select {
		case <-p.done:
			return
		case <-p.still:
			continue
		case <-sessions.Changed():
			p.takeSession(sessions.Take())
			continue
		case <-look:
			if s := p.member.Session().Get(); s.ID != session || !s.Holds(time.Now(), 0) {
				epoch = 0
			}
		case <-cursor.Changed():
			l := cursor.Take()
			if epoch, session = l.Epoch, l.Session; l.Term == 0 {
				epoch = 0
			}
		}
		if epoch == leads {
			continue
		}
		if epoch == 0 {
			p.note(history.Event{Verb: history.Unlead, Epoch: leads})
		} else {
			p.note(history.Event{Verb: history.Lead, Epoch: epoch})
		}
		leads = epoch
	}
}
