package onconsul_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

var (
	flagSeeds = flag.Uint64("seeds", 12, "how many histories the judge is given")
	flagFrom  = flag.Uint64("from", 0, "the first seed")
)

// The longest that a duty takes to stop when it is asked to. When its lease ends it takes 9/100 of
// the lease, which leaves it a tenth.
const drainsWithin = 4 * time.Second

// mostLate is how late a request may be.
const mostLate = time.Minute

// process is one connection, and the way that it has to Consul.
type process struct {
	conn  *onconsul.Conn
	to    election.Connection // conn, recorded by the judge
	storm *storm
	name  string // of its instance at the agent
	lease time.Duration
}

// play is one history of one election.
type play struct {
	t       *testing.T
	r       *rand.Rand
	s       *embedded
	judge   *electiontest.Judge
	hosts   []*process
	stands  []*candidate
	n       uint64
	aside   sync.WaitGroup // what is done beside the plot
	did     map[string]int
	endless []string // candidates whose candidacy did not end
}

// candidate is one candidacy.
type candidate struct {
	*process
	name string
	e    *election.Election
	slow time.Duration // part of what it may take to stop, in thousandths
	quit context.CancelFunc
}

const contested = "demo"

// perform plays the history of a seed. left is what candidates have left behind in Consul; endless
// are those whose candidacy had not ended endsWithin after they were told to resign.
func perform(t *testing.T, seed uint64, length time.Duration) (judge *electiontest.Judge,
	did map[string]int, left, endless []string) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{
			t: t, r: rand.New(rand.NewPCG(seed, 0)), s: newEmbedded(t), n: seed << 16,
			judge: electiontest.NewJudge(), did: map[string]int{},
		}
		defer p.s.consul.Close()
		judge, did = p.judge, p.did
		ctx, cancel := context.WithCancel(t.Context())
		var bystander sync.WaitGroup
		bystander.Go(func() {
			for store.Pause(ctx, time.Second) {
				p.judge.Look(contested, p.s.look)
			}
		})
		for range 3 {
			p.hosts = append(p.hosts, p.process())
		}
		for end := time.Now().Add(length); time.Now().Before(end); {
			p.act()
			time.Sleep(p.upTo(6 * time.Second))
		}
		p.finish()
		left, endless = p.leftBehind(), p.endless
		cancel()
		bystander.Wait()
	})
	return judge, did, left, endless
}

func (p *play) upTo(d time.Duration) time.Duration {
	return time.Duration(p.r.Int64N(int64(d) + 1))
}

func (p *play) seed() *rand.Rand { p.n++; return rand.New(rand.NewPCG(p.n, 1)) }

// process makes a connection. Some are slow, and some of what they write comes again: much later,
// or so soon that the copy overtakes it.
// Most have a health check, and some a lease that is shorter than the session's TTL.
func (p *play) process() *process {
	w := &storm{
		consul: p.s.consul, r: p.seed(), slow: p.upTo(2 * time.Second), calm: p.r.IntN(3) == 0,
		late: p.upTo(mostLate) / []time.Duration{1, 10, 100}[p.r.IntN(3)],
	}
	p.n++
	cfg := onconsul.Config{Client: devconsul.ClientOver(w), Logger: p.s.log,
		Name: fmt.Sprint("p", p.n&0xffff), Lease: onconsul.DefaultTTL}
	if p.r.IntN(3) == 0 {
		cfg.Lease = 5 * time.Second
	}
	if p.r.IntN(4) == 0 {
		cfg.CheckTTL = onconsul.NoCheck
	}
	conn, err := onconsul.Connect(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return &process{conn: conn, to: p.judge.Record(chilly{conn, w}), storm: w, name: cfg.Name,
		lease: cfg.Lease}
}

// stops waits for as long as the duty takes to stop, half of what it may at the most.
func (c *candidate) stops() { time.Sleep(9 * c.lease / 100 * c.slow / 2000) }

func (p *play) election(h *process, cfg election.Config) *election.Election {
	cfg.Election, cfg.Logger = contested, p.s.log
	e, err := election.New(h.to, cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

func (p *play) nominate() {
	p.n++
	c := &candidate{process: p.hosts[p.r.IntN(len(p.hosts))], name: fmt.Sprint("c", p.n&0xffff),
		slow: min(p.upTo(2000), 1000)}
	cfg := election.Config{Name: c.name, Priority: p.r.IntN(3), Preempt: p.r.IntN(4) == 0}
	byHand := p.r.IntN(3) == 0
	if !byHand {
		cfg.Lead = func(ctx context.Context, s election.Status) error {
			return c.lead(ctx, p.judge, s)
		}
	}
	c.e = p.election(c.process, cfg)
	ctx, cancel := context.WithCancel(p.t.Context())
	c.quit = cancel
	statuses, err := c.e.Nominate(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	p.aside.Go(func() {
		if byHand {
			c.leadByHand(p.judge, statuses)
		}
		for range statuses {
		}
	})
	p.stands = append(p.stands, c)
}

// resign does not say that a duty by hand has stopped, as Resign would.
func (c *candidate) resign() { c.quit() }

// lead is the duty. It takes its time to stop, but for no longer than it has.
func (c *candidate) lead(ctx context.Context, judge *electiontest.Judge, s election.Status) error {
	work := func() { judge.Work(contested, s.Self.ID, s.Token) }
	work()
	for store.Pause(ctx, 500*time.Millisecond) {
		work()
	}
	work()
	c.stops()
	drain, cancel := context.WithTimeout(context.Background(), drainsWithin*c.slow/1000)
	defer cancel()
	hurries := func(s election.Status) bool { return s.Role != election.Draining }
	if s, err := c.e.State().Wait(drain, hurries); err == nil && hurries(s) {
		c.stops()
	}
	work()
	return nil
}

// look reads who leads. When a leader has not given the leadership up, nobody can tell.
func (s *embedded) look() (id string, token uint64, ok bool) {
	all, _, err := s.consul.Client().KV().List(onconsul.DefaultPrefix+contested+"/state/",
		&api.QueryOptions{RequireConsistent: true})
	if err != nil {
		return "", 0, false // Consul holds an election of its own
	}
	ok = true
	for _, pair := range all {
		var value struct {
			ID        string `json:"id"`
			LockDelay int64  `json:"lock_delay"`
		}
		if err := json.Unmarshal(pair.Value, &value); err != nil {
			continue
		}
		switch {
		case strings.HasSuffix(pair.Key, "/leader") && pair.Session != "":
			return value.ID, pair.CreateIndex, true
		case strings.HasSuffix(pair.Key, "/term"):
			ok = value.LockDelay == 0
		}
	}
	return "", 0, ok
}

// act does the next thing.
func (p *play) act() {
	p.stands = slices.DeleteFunc(p.stands, func(c *candidate) bool {
		select {
		case <-c.e.Done():
			return true
		default:
			return false
		}
	})
	if len(p.stands) < 3 {
		p.nominate()
		return
	}
	c := p.stands[p.r.IntN(len(p.stands))]
	if leader := p.leader(); leader != nil && p.r.IntN(3) > 0 { // who matters most
		c = leader
	}
	acts := []struct {
		name string
		f    func(*candidate)
	}{
		{"joins", func(*candidate) {
			if len(p.stands) < 6 {
				p.nominate()
			}
		}},
		{"resigns", (*candidate).resign},
		{"is handed over", func(*candidate) { p.handOver() }},
		{"is cut off", func(c *candidate) {
			c.storm.sever()
			time.AfterFunc(p.upTo(45*time.Second), c.storm.mend)
		}},
		{"is frozen", func(c *candidate) {
			c.storm.freeze()
			time.AfterFunc(p.upTo(45*time.Second), c.storm.thaw)
		}},
		{"has its session ended", p.end},
		{"has its session ended unheard", func(c *candidate) {
			p.lose(c)
			time.AfterFunc(p.upTo(30*time.Second), c.storm.mend)
		}},
		{"has its session ended while it is told that it lives", func(c *candidate) {
			c.storm.set(func() { p.end(c) })
			time.AfterFunc(p.upTo(40*time.Second), c.storm.mend)
		}},
		{"has its session ended unheard, and Consul is restored", func(c *candidate) {
			p.lose(c)
			p.s.Restore()
			time.AfterFunc(p.upTo(30*time.Second), c.storm.mend)
		}},
		{"is lost when it has just won, and Consul is restored", func(c *candidate) {
			c.resign()
			time.Sleep(p.upTo(4 * time.Second))
			if c = p.leader(); c != nil { // what the others have sent may still be under way
				c.storm.sever()
				p.end(c)
				p.s.Restore()
				time.AfterFunc(p.upTo(30*time.Second), c.storm.mend)
			}
		}},
		{"has its instance taken away", p.takeAway},
		{"has its instance taken away unheard", func(c *candidate) {
			c.storm.sever()
			p.takeAway(c)
			time.AfterFunc(p.upTo(30*time.Second), c.storm.mend)
		}},
		{"has an agent that takes no reports", func(c *candidate) {
			c.storm.mute(true)
			time.AfterFunc(p.upTo(20*time.Second), func() { c.storm.mute(false) })
		}},
		{"is lost behind an agent that takes no reports", func(c *candidate) {
			c.storm.mute(true)
			time.AfterFunc(p.upTo(7*time.Second), c.storm.sever)
			time.AfterFunc(7*time.Second+p.upTo(20*time.Second), func() {
				c.storm.mute(false)
				c.storm.mend()
			})
		}},
		{"is deleted", func(*candidate) { p.delete() }},
		{"is deleted after its leader was lost", func(c *candidate) {
			p.lose(c)
			p.delete()
			time.AfterFunc(p.upTo(30*time.Second), c.storm.mend)
			p.s.Restore()
		}},
		{"has its process killed", func(c *candidate) {
			c.storm.sever()
			p.replace(c.process, 2*time.Minute)
		}},
		{"has its connection closed", func(c *candidate) {
			p.replace(c.process, 0)
		}},
		{"has its connection closed in the middle of something", p.closeAmid},
		{"sees Consul elect", func(*candidate) {
			past := p.s.consul.Moment()
			p.s.consul.ElectionStart()
			time.Sleep(p.upTo(12 * time.Second))
			if p.r.IntN(2) == 0 {
				p.s.consul.ElectionEndBehind(past)
				time.Sleep(p.upTo(8 * time.Second))
			}
			p.s.consul.ElectionEnd()
		}},
	}
	act := acts[p.r.IntN(len(acts))]
	if p.r.IntN(4) == 0 { // nothing else makes a leader release that stays
		act = acts[2]
	}
	p.did[act.name]++
	act.f(c)
}

// leader is the candidate that leads; nil: none.
func (p *play) leader() *candidate {
	i := slices.IndexFunc(p.stands, func(c *candidate) bool {
		return c.e.State().Get().Role == election.Leading
	})
	if i < 0 {
		return nil
	}
	return p.stands[i]
}

// replace makes a new process instead of h, whose connection is closed then.
func (p *play) replace(h *process, then time.Duration) {
	p.hosts[slices.Index(p.hosts, h)] = p.process()
	p.stands = slices.DeleteFunc(p.stands, func(c *candidate) bool { return c.process == h })
	p.aside.Go(func() {
		time.Sleep(then)
		p.close(h)
	})
}

// closeAmid closes a connection beside one of its next requests: often while a candidate joins,
// gives the leadership up or is cut off. What is late goes on to arrive.
func (p *play) closeAmid(c *candidate) {
	h := c.process
	p.hosts[slices.Index(p.hosts, h)] = p.process()
	p.stands = slices.DeleteFunc(p.stands, func(c *candidate) bool { return c.process == h })
	trapped := make(chan struct{})
	h.storm.lay(p.r.IntN(8), func() { close(trapped) })
	after := p.upTo(3*time.Millisecond) * time.Duration(p.r.IntN(3))
	switch p.r.IntN(4) {
	case 0:
		c.resign()
	case 1:
		h.storm.sever()
		time.AfterFunc(p.upTo(30*time.Second), h.storm.mend)
	case 2:
		p.end(c)
	}
	p.aside.Go(func() {
		select {
		case <-trapped:
		case <-time.After(20 * time.Second):
		}
		time.Sleep(after)
		h.storm.thaw() // a frozen one cannot
		h.conn.Close()
		time.Sleep(time.Minute)
		h.storm.settle()
	})
}

// close ends a connection.
func (p *play) close(h *process) {
	h.storm.thaw() // a frozen one cannot
	h.conn.Close()
	h.storm.settle()
}

// end ends the session as an operator does, who may not succeed.
func (p *play) end(c *candidate) {
	_, _ = p.s.consul.Client().Session().Destroy(c.conn.Contact().Get().Session, nil)
}

// takeAway deregisters the instance at the agent, and with it its check and its session.
func (p *play) takeAway(c *candidate) {
	agent := p.s.consul.Client().Agent()
	instances, err := agent.Services()
	if err != nil {
		return // as an operator, who may not succeed
	}
	for id, i := range instances {
		if i.Meta["coordd-session"] == c.process.name {
			_ = agent.ServiceDeregister(id)
		}
	}
}

// lose ends the session of one who does not hear of it, often just after it was renewed, when the
// lease is as good as new.
func (p *play) lose(c *candidate) {
	if p.r.IntN(2) == 0 {
		ctx, cancel := context.WithTimeout(p.t.Context(), 4*time.Second)
		defer cancel()
		was := c.conn.Contact().Get()
		_, _ = c.conn.Contact().Wait(ctx, func(now election.Contact) bool {
			return now.Lease.Start != was.Lease.Start
		})
	}
	c.storm.sever()
	p.end(c)
}

// beside gives an order as an operator, who does not wait for ever and may be told that it cannot
// be.
func (p *play) beside(order func(context.Context, *election.Election) error) {
	h := p.process()
	e := p.election(h, election.Config{})
	p.aside.Go(func() {
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
		defer cancel()
		_ = order(ctx, e)
		p.close(h)
	})
}

func (p *play) handOver() {
	to := p.stands[p.r.IntN(len(p.stands))]
	if p.r.IntN(4) == 0 { // who cannot hear of it any more
		to.storm.sever()
		time.AfterFunc(p.upTo(30*time.Second), to.storm.mend)
	}
	p.beside(func(ctx context.Context, e *election.Election) error {
		return e.HandOver(ctx, to.name)
	})
}

func (p *play) delete() {
	p.beside(func(ctx context.Context, e *election.Election) error { return e.Delete(ctx) })
}

// endsWithin is far beyond what any candidacy may take to end once nothing disturbs it.
const endsWithin = 10 * time.Minute

// finish brings everything to rest.
func (p *play) finish() {
	for _, h := range p.hosts {
		h.storm.settle()
	}
	time.Sleep(15 * time.Second)
	for _, c := range p.stands {
		c.resign()
	}
	bound, cancel := context.WithTimeout(context.Background(), endsWithin)
	defer cancel()
	for _, c := range p.stands {
		select {
		case <-c.e.Done():
		case <-bound.Done():
			p.endless = append(p.endless, c.name)
		}
	}
	for _, h := range p.hosts {
		p.close(h)
	}
	p.aside.Wait()
	time.Sleep(mostLate + 2*time.Second) // for what is late, and a last look
}

// leftBehind is what is in Consul beside the state of the election.
func (p *play) leftBehind() []string {
	keys, _, err := p.s.consul.Client().KV().Keys(onconsul.DefaultPrefix, "", nil)
	if err != nil {
		p.t.Error(err)
	}
	left := slices.DeleteFunc(keys, func(key string) bool {
		return strings.Contains(key, "/state/") && !strings.HasSuffix(key, "/leader")
	})
	sessions, _, err := p.s.consul.Client().Session().List(nil)
	if err != nil {
		p.t.Error(err)
	}
	for _, s := range sessions {
		left = append(left, "session "+s.ID)
	}
	return left
}

// Candidates join, resign and are handed the leadership. Processes are cut off, frozen, killed and
// closed, at rest and in the middle of something. Sessions are ended, Consul elects and is
// restored, the election is deleted, and requests are late, lost and doubled. The lock of the
// election is a register all the same, and nothing of a candidate is left behind.
func TestLeadershipIsARegister(t *testing.T) {
	did, counted := map[string]int{}, map[string]int{}
	begin := time.Now()
	for seed := *flagFrom; seed < *flagFrom+*flagSeeds; seed++ {
		judge, acts, left, endless := perform(t, seed, 5*time.Minute)
		if len(endless) > 0 {
			t.Errorf("seed %d: %q were told to resign, and had not ended after %v", seed, endless,
				endsWithin)
		}
		if len(left) > 0 {
			t.Errorf("seed %d: left behind: %q", seed, left)
		}
		if err := judge.Verdict(time.Minute); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for name, n := range acts {
			did[name] += n
		}
		for what, n := range judge.Counted() {
			counted[what] += n
		}
	}
	t.Logf("%v for %d histories: %v", time.Since(begin), *flagSeeds, counted)
	t.Log(did)
	for _, what := range []string{"take", "take of unknown outcome", "release", "leave",
		"leave of unknown outcome", "work", "look"} {
		if counted[what] == 0 && *flagSeeds >= 10 {
			t.Errorf("there was no %s", what)
		}
	}
}
