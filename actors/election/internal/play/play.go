// Package play plays histories of one election, in virtual time, that its judge then judges: what
// those on Consul and those on ZooKeeper have in common. Candidates come, lead, stop slowly and go;
// what becomes of their processes on the way, and of the server, is each backend's own.
package play

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/internal/store"
)

const (
	// Contested is the name of the election.
	Contested = "demo"
	// DrainsWithin is the longest that a duty takes to stop when it is asked to. When its lease
	// ends it takes 9/100 of the lease, which leaves it a tenth.
	DrainsWithin = 4 * time.Second
	// EndsWithin is far beyond what any candidacy may take to end once nothing disturbs it.
	EndsWithin = 10 * time.Minute
)

// Host is one process: one connection, and the way that it has to the server.
type Host interface {
	comparable
	Connection() election.Connection // recorded by the judge
	Lease() time.Duration
	Killed() <-chan struct{} // nil: its duty goes on until it hears of its end
}

// Play is one history.
type Play[H Host] struct {
	T          *testing.T
	Rand       *rand.Rand
	Judge      *electiontest.Judge
	Log        *slog.Logger
	Hosts      []H
	Candidates []*Candidate[H]
	Aside      sync.WaitGroup // what is done beside the plot
	Did        map[string]int // the acts, counted
	Wrong      []string       // what the judge does not look for
	NewHost    func() H
	// ByHand does the duty of some candidates in place of a Lead function; nil: of none.
	ByHand func(c *Candidate[H], statuses <-chan election.Status)

	number uint64
	// Schedule of all duties; empty: they go on. One history in four has one.
	Schedule string
}

// Candidate is one candidacy.
type Candidate[H Host] struct {
	Host     H
	Name     string
	Election *election.Election
	Slow     time.Duration // part of what it may take to stop, in thousandths
	Quit     context.CancelFunc
}

// New begins the history of a seed.
func New[H Host](t *testing.T, seed uint64, log *slog.Logger) *Play[H] {
	p := &Play[H]{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), Judge: electiontest.NewJudge(),
		Log: log, Did: map[string]int{}, number: seed << 16}
	if seed%4 == 3 {
		p.Schedule = "@every 20s"
	}
	return p
}

// UpTo draws a time.
func (p *Play[H]) UpTo(d time.Duration) time.Duration {
	return time.Duration(p.Rand.Int64N(int64(d) + 1))
}

// Seed makes dice for one part of the play.
func (p *Play[H]) Seed() *rand.Rand { return rand.New(rand.NewPCG(p.Next(), 1)) }

// Next is a number that was never there.
func (p *Play[H]) Next() uint64 { p.number++; return p.number }

// Perform has three processes, acts for so long, and then comes to its end. look says each second
// who leads.
func (p *Play[H]) Perform(length time.Duration, act func(), look func() (string, uint64, bool),
	finish func()) {
	ctx, cancel := context.WithCancel(p.T.Context())
	var bystander sync.WaitGroup
	bystander.Go(func() {
		for store.Pause(ctx, time.Second) {
			p.Judge.Look(Contested, look)
		}
	})
	for range 3 {
		p.Hosts = append(p.Hosts, p.NewHost())
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		act()
		time.Sleep(p.UpTo(6 * time.Second))
	}
	finish()
	cancel()
	bystander.Wait()
}

// Election is that of a process.
func (p *Play[H]) Election(h H, cfg election.Config) *election.Election {
	cfg.Election, cfg.Logger = Contested, p.Log
	e, err := election.New(h.Connection(), cfg)
	if err != nil {
		p.T.Fatal(err)
	}
	return e
}

// Nominate adds a candidate of one of the processes.
func (p *Play[H]) Nominate() {
	n := p.Next()
	c := &Candidate[H]{Host: p.Hosts[p.Rand.IntN(len(p.Hosts))], Name: fmt.Sprint("c", n&0xffff),
		Slow: min(p.UpTo(2000), 1000)}
	cfg := election.Config{Name: c.Name, Priority: p.Rand.IntN(3), Preempt: p.Rand.IntN(4) == 0}
	byHand := p.ByHand != nil && p.Rand.IntN(3) == 0
	if p.Schedule != "" {
		byHand, cfg.Preempt, cfg.Schedule = false, false, p.Schedule
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(n%7) * 15 * time.Second) }
	}
	if !byHand {
		cfg.Lead = func(ctx context.Context, s election.Status) error {
			return c.lead(ctx, p.Judge, s)
		}
	}
	c.Election = p.Election(c.Host, cfg)
	ctx, cancel := context.WithCancel(p.T.Context())
	c.Quit = cancel // does not say that a duty by hand has stopped, as Resign would
	statuses, err := c.Election.Nominate(ctx)
	if err != nil {
		p.T.Fatal(err)
	}
	p.Aside.Go(func() {
		if byHand {
			p.ByHand(c, statuses)
		}
		for range statuses {
		}
	})
	p.Candidates = append(p.Candidates, c)
}

// stops waits for as long as the duty takes to stop, half of what it may at the most.
func (c *Candidate[H]) stops() { time.Sleep(9 * c.Host.Lease() / 100 * c.Slow / 2000) }

// lead is the duty. It takes its time to stop, but for no longer than it has.
func (c *Candidate[H]) lead(ctx context.Context, judge *electiontest.Judge,
	s election.Status) error {
	work := func() {
		select {
		case <-c.Host.Killed():
		default:
			judge.Work(Contested, s.Self.ID, s.Token)
		}
	}
	work()
	during := ctx
	if !s.Period.IsZero() {
		judge.Ran(Contested, s.Period)
		run, cancel := context.WithTimeout(ctx, time.Duration(s.Period.Unix()/20%5)*6*time.Second)
		defer cancel()
		during = run
	}
	for store.Pause(during, 500*time.Millisecond) {
		work()
	}
	work()
	if ctx.Err() == nil {
		return nil
	}
	c.stops()
	drain, cancel := context.WithTimeout(context.Background(), DrainsWithin*c.Slow/1000)
	defer cancel()
	hurries := func(s election.Status) bool { return s.Role != election.Draining }
	if s, err := c.Election.State().Wait(drain, hurries); err == nil && hurries(s) {
		c.stops()
	}
	work()
	return ctx.Err()
}

// Act is one thing that can happen to a candidate, or beside it.
type Act[H Host] struct {
	name string
	do   func(*Candidate[H])
}

// Is makes an act of what happens to a candidate, or beside it.
func (p *Play[H]) Is(name string, do func(*Candidate[H])) Act[H] { return Act[H]{name, do} }

// Act does the next thing: one of acts, and one time in so many the one that hands over, without
// which no leader that stays would ever release.
func (p *Play[H]) Act(acts []Act[H], handOver, oneIn int) {
	p.Candidates = slices.DeleteFunc(p.Candidates, func(c *Candidate[H]) bool {
		select {
		case <-c.Election.Done():
			return true
		default:
			return false
		}
	})
	if len(p.Candidates) < 3 {
		p.Nominate()
		return
	}
	c := p.Candidates[p.Rand.IntN(len(p.Candidates))]
	if leader := p.Leader(); leader != nil && p.Rand.IntN(3) > 0 { // who matters most
		c = leader
	}
	act := acts[p.Rand.IntN(len(acts))]
	if p.Rand.IntN(oneIn) == 0 {
		act = acts[handOver]
	}
	if p.Schedule != "" && strings.HasPrefix(act.name, "is deleted") {
		return // the record of the runs would go too
	}
	p.Did[act.name]++
	act.do(c)
}

// Joins is the act of one more candidate.
func (p *Play[H]) Joins() Act[H] {
	return Act[H]{"joins", func(*Candidate[H]) {
		if len(p.Candidates) < 6 {
			p.Nominate()
		}
	}}
}

// Leader is the candidate that leads; nil: none.
func (p *Play[H]) Leader() *Candidate[H] {
	i := slices.IndexFunc(p.Candidates, func(c *Candidate[H]) bool {
		return c.Election.State().Get().Role == election.Leading
	})
	if i < 0 {
		return nil
	}
	return p.Candidates[i]
}

// Forget takes a process out of the play, and puts another one into its place.
func (p *Play[H]) Forget(h H) {
	p.Hosts[slices.Index(p.Hosts, h)] = p.NewHost()
	p.Candidates = slices.DeleteFunc(p.Candidates, func(c *Candidate[H]) bool {
		return c.Host == h
	})
}

// Resign has all candidates go, and notes those whose candidacy has not ended [EndsWithin] later.
func (p *Play[H]) Resign() {
	for _, c := range p.Candidates {
		c.Quit()
	}
	bound, cancel := context.WithTimeout(context.Background(), EndsWithin)
	defer cancel()
	for _, c := range p.Candidates {
		select {
		case <-c.Election.Done():
		case <-bound.Done():
			p.Wrong = append(p.Wrong, fmt.Sprintf(
				"%s was told to resign, and had not ended after %v", c.Name, EndsWithin))
		}
	}
}
