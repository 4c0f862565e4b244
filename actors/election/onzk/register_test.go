package onzk_test

import (
	"bytes"
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
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	consul "github.com/coordd/coordd/internal/store"
)

var (
	flagSeeds = flag.Uint64("seeds", 12, "how many histories the judge is given")
	flagFrom  = flag.Uint64("from", 0, "the first seed")
)

const (
	contested = "demo"
	lease     = 10 * time.Second
	// The longest that a duty takes to stop when it is asked to. When its lease ends it takes half
	// of the margin at the most.
	drainsWithin = 4 * time.Second
	// mostLate is how late a packet may be.
	mostLate = time.Minute
	// endsWithin is far beyond what any candidacy may take to end once nothing disturbs it.
	endsWithin = 10 * time.Minute
	// ledWithin is when somebody leads again then: the timeout of a session, a tick, the
	// lock-delay, the waits of a hand-over, and each with some to spare.
	ledWithin = 90 * time.Second
	// mostRequests is what all processes together may ask in a second: three times what they have
	// in the worst of many histories, and a hundredth of what one has that asks without a pause.
	mostRequests = 250
)

// process is one connection, and the way that it has to ZooKeeper.
type process struct {
	conn *onzk.Conn
	to   election.Connection // conn, recorded by the judge
	way  *devzookeeper.Way
	dead chan struct{} // closed when the process was killed
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
	wrong   []string
	busiest int           // the most requests in a second
	delay   time.Duration // onzk.Config.LockDelay of all
	digest  string        // onzk.Config.Digest of all
}

// candidate is one candidacy.
type candidate struct {
	*process
	name string
	e    *election.Election
	slow time.Duration // part of what it may take to stop, in thousandths
	quit context.CancelFunc
}

// perform plays the history of a seed. wrong is what the judge of the lock does not look for.
func perform(t *testing.T, seed uint64, length time.Duration) (judge *electiontest.Judge,
	did map[string]int, wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{
			t: t, r: rand.New(rand.NewPCG(seed, 0)), s: newEmbedded(t), n: seed << 16,
			judge: electiontest.NewJudge(), did: map[string]int{},
		}
		defer p.s.zoo.Close()
		judge, did = p.judge, p.did
		if p.r.IntN(3) == 0 {
			p.delay = -1 // no session is ended early then, and the lease alone has to do
		}
		if p.r.IntN(3) == 0 && !racing {
			p.digest = "user:secret" // is sent again on each connection, before its watches
		}
		ctx, cancel := context.WithCancel(t.Context())
		var bystander sync.WaitGroup
		bystander.Go(func() {
			asked := 0
			for consul.Pause(ctx, time.Second) {
				p.judge.Look(contested, p.look)
				now := p.s.zoo.Requests()
				p.busiest = max(p.busiest, now-asked)
				asked = now
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
		cancel()
		bystander.Wait()
		if p.busiest > mostRequests {
			p.wrong = append(p.wrong, fmt.Sprintf("%d requests in one second", p.busiest))
		}
		wrong = p.wrong
	})
	return judge, did, wrong
}

func (p *play) upTo(d time.Duration) time.Duration {
	return time.Duration(p.r.Int64N(int64(d) + 1))
}

func (p *play) seed() *rand.Rand { p.n++; return rand.New(rand.NewPCG(p.n, 1)) }

// way is one on which packets are slow, connections break, and the servers are behind.
func (p *play) way() *devzookeeper.Way {
	w := devzookeeper.Weather{
		Rand: p.seed(), Slow: p.upTo(time.Second), Breaks: 20 + p.r.IntN(200),
		Late: p.upTo(mostLate) / []time.Duration{1, 10, 100}[p.r.IntN(3)],
	}
	switch p.r.IntN(3) {
	case 0:
		w.Rand = nil
	case 1:
		w.Lag = p.upTo(2 * time.Second)
	}
	return p.s.zoo.Way(w)
}

func (p *play) process() *process {
	h := &process{way: p.way(), dead: make(chan struct{})}
	h.conn = p.s.connect(p.config(h.way))
	h.to = p.judge.Record(h.conn)
	return h
}

func (p *play) config(w *devzookeeper.Way) onzk.Config {
	return onzk.Config{Dial: w.Dial, SessionTimeout: lease, LockDelay: p.delay, Logger: p.s.log,
		Servers: addresses, Digest: p.digest}
}

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
	cfg.Lead = func(ctx context.Context, s election.Status) error {
		return c.lead(ctx, p.judge, s)
	}
	c.e = p.election(c.process, cfg)
	ctx, cancel := context.WithCancel(p.t.Context())
	c.quit = cancel
	statuses, err := c.e.Nominate(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	p.aside.Go(func() {
		for range statuses {
		}
	})
	p.stands = append(p.stands, c)
}

// stops waits for as long as the duty takes to stop, half of what it may at the most.
func (c *candidate) stops() { time.Sleep(9 * lease / 100 * c.slow / 2000) }

// lead is the duty. It takes its time to stop, but for no longer than it has.
func (c *candidate) lead(ctx context.Context, judge *electiontest.Judge, s election.Status) error {
	work := func() {
		select {
		case <-c.dead:
		default:
			judge.Work(contested, s.Self.ID, s.Token)
		}
	}
	work()
	for consul.Pause(ctx, 500*time.Millisecond) {
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
func (p *play) look() (id string, token uint64, ok bool) {
	nodes := p.s.zoo.Nodes(onzk.DefaultRoot + "/" + contested)
	if leader, there := nodes["leader"]; there {
		var value struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(leader.Data, &value)
		return value.ID, uint64(leader.Stat.Czxid), err == nil
	}
	return "", 0, len(nodes["term"].Data) == 0
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
		{"resigns", func(c *candidate) { c.quit() }},
		{"is handed over", func(*candidate) { p.handOver() }},
		{"is cut off", p.cutOff},
		{"is at a server that is cut off", func(c *candidate) { c.way.Isolate() }},
		{"has its session ended", p.end},
		{"has its session ended unheard", func(c *candidate) {
			c.way.Sever()
			p.end(c)
			p.mendLater(c.way)
		}},
		{"has its session ended at a server that is cut off", func(c *candidate) {
			c.way.Isolate()
			p.end(c)
		}},
		{"is deleted", func(*candidate) {
			p.beside(func(ctx context.Context, e *election.Election) error { return e.Delete(ctx) })
		}},
		{"is deleted after its leader was lost", func(c *candidate) {
			p.cutOff(c)
			p.beside(func(ctx context.Context, e *election.Election) error { return e.Delete(ctx) })
		}},
		{"has its process killed", func(c *candidate) { p.kill(c.process) }},
		{"has its process killed, and its guard says goodbye", p.depart},
		{"has its connection closed", func(c *candidate) { p.replace(c.process) }},
		{"has its connection closed in the middle of something", p.closeAmid},
		{"sees ZooKeeper elect", func(*candidate) { p.s.zoo.Elect() }},
		{"sees ZooKeeper away", func(*candidate) {
			p.s.zoo.Stop()
			time.Sleep(p.upTo(20 * time.Second))
			p.s.zoo.Start()
		}},
		{"is written over by a stranger", func(*candidate) {
			if p.s.zoo.Nodes(onzk.DefaultRoot + "/" + contested)["term"].Stat.Czxid != 0 {
				p.s.zoo.Write(onzk.DefaultRoot+"/"+contested+"/term", []byte("?"))
			}
		}},
	}
	act := acts[p.r.IntN(len(acts))]
	if p.r.IntN(8) == 0 { // nothing else makes a leader release that stays
		act = acts[2]
	}
	p.did[act.name]++
	act.f(c)
}

func (p *play) cutOff(c *candidate) {
	c.way.Sever()
	p.mendLater(c.way)
}

func (p *play) mendLater(w *devzookeeper.Way) {
	reset := p.r.IntN(2) == 0
	time.AfterFunc(p.upTo(45*time.Second), func() { w.Mend(reset) })
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

// forget takes a process out of the play, and puts another one into its place.
func (p *play) forget(h *process) {
	p.hosts[slices.Index(p.hosts, h)] = p.process()
	p.stands = slices.DeleteFunc(p.stands, func(c *candidate) bool { return c.process == h })
}

// replace makes a new process instead of h, whose connection is closed.
func (p *play) replace(h *process) {
	p.forget(h)
	p.aside.Go(func() { p.close(h) })
}

// kill ends a process. What it has sent goes on to arrive.
func (p *play) kill(h *process) {
	p.forget(h)
	close(h.dead)
	h.way.Kill()
	p.aside.Go(func() {
		time.Sleep(2 * time.Minute)
		p.close(h)
	})
}

// depart has a guard say what the killed process did not.
func (p *play) depart(c *candidate) {
	session := c.conn.Contact().Get().Session
	p.kill(c.process)
	way := p.way()
	p.standStill(way)
	cfg := p.config(way)
	p.aside.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*lease)
		defer cancel()
		_, _ = onzk.Depart(ctx, cfg, contested, session)
	})
}

// standStill cuts a way in the middle of something. What is under way arrives when it is mended.
func (p *play) standStill(w *devzookeeper.Way) {
	after := p.upTo(30 * time.Second)
	w.Trap(p.r.IntN(16), func() {
		w.Sever()
		time.Sleep(after)
		w.Mend(false)
	})
}

// closeAmid closes a connection beside one of its next requests: often while a candidate joins,
// gives the leadership up or is cut off. What is late goes on to arrive.
func (p *play) closeAmid(c *candidate) {
	h := c.process
	p.forget(h)
	trapped := make(chan struct{})
	h.way.Trap(p.r.IntN(8), func() { close(trapped) })
	after := p.upTo(3*time.Millisecond) * time.Duration(p.r.IntN(3))
	switch p.r.IntN(4) {
	case 0:
		c.quit()
	case 1:
		p.cutOff(c)
	case 2:
		p.end(c)
	}
	p.aside.Go(func() {
		select {
		case <-trapped:
		case <-time.After(20 * time.Second):
		}
		time.Sleep(after)
		p.close(h)
	})
}

func (p *play) close(h *process) { h.conn.Close() }

// end ends the session as an operator does.
func (p *play) end(c *candidate) {
	if session, _ := c.conn.Credentials(); session != 0 && p.delay >= 0 {
		p.s.zoo.End(session)
	}
}

// beside gives an order as an operator, who does not wait for ever and may be told that it cannot
// be.
func (p *play) beside(order func(context.Context, *election.Election) error) {
	h := p.process()
	if p.r.IntN(3) == 0 {
		p.standStill(h.way)
	}
	e := p.election(h, election.Config{})
	patience := p.upTo(3 * time.Minute)
	p.aside.Go(func() {
		ctx, cancel := context.WithTimeout(p.t.Context(), patience)
		defer cancel()
		_ = order(ctx, e)
		p.close(h)
	})
}

func (p *play) handOver() {
	to := p.stands[p.r.IntN(len(p.stands))]
	if p.r.IntN(4) == 0 { // who cannot hear of it any more
		p.cutOff(to)
	}
	p.beside(func(ctx context.Context, e *election.Election) error {
		return e.HandOver(ctx, to.name)
	})
}

// finish brings everything to rest.
func (p *play) finish() {
	p.s.zoo.Settle()
	time.Sleep(mostLate + time.Minute) // for what is late, and for orders
	// A Delete that was given up leaves an election that has ended.
	if at := p.s.zoo.Nodes(onzk.DefaultRoot)[contested]; bytes.Contains(at.Data,
		[]byte("deleted")) {
		p.beside(func(_ context.Context, e *election.Election) error {
			return e.Delete(p.t.Context())
		})
		time.Sleep(time.Minute)
	}
	p.nominate()
	bound, cancel := context.WithTimeout(context.Background(), ledWithin)
	for p.leader() == nil && bound.Err() == nil {
		consul.Pause(bound, 100*time.Millisecond)
	}
	if p.leader() == nil {
		story := fmt.Sprintf("nobody leads %v after all is well:", ledWithin)
		for _, c := range p.stands {
			story += fmt.Sprintf("\n%s: %+v %+v", c.name, c.e.State().Get(),
				c.conn.Contact().Get())
		}
		for name, n := range p.s.zoo.Nodes(onzk.DefaultRoot + "/" + contested) {
			story += fmt.Sprintf("\n%s %q by %x", name, n.Data, n.Stat.EphemeralOwner)
		}
		p.wrong = append(p.wrong, story)
	}
	cancel()
	for _, c := range p.stands {
		c.quit()
	}
	bound, cancel = context.WithTimeout(context.Background(), endsWithin)
	defer cancel()
	for _, c := range p.stands {
		select {
		case <-c.e.Done():
		case <-bound.Done():
			p.wrong = append(p.wrong, c.name+" was told to resign, and has not ended")
		}
	}
	for _, h := range p.hosts {
		p.close(h)
	}
	p.aside.Wait()
	time.Sleep(2*lease + 2*time.Second) // a last look
	for name := range p.s.zoo.Nodes(onzk.DefaultRoot + "/" + contested) {
		if name != "term" && !strings.HasPrefix(name, "_e_") {
			p.wrong = append(p.wrong, "left behind: "+name)
		}
	}
}

// Candidates join, resign and are handed the leadership. Processes are cut off, killed and closed,
// at rest and in the middle of something. Sessions are ended, ZooKeeper elects and is away, its
// servers are behind or cut off, the election is deleted, and packets are late and lost. The lock
// of the election is a register all the same, somebody leads when all is well again, nothing of a
// candidate is left behind, and nobody asks without a pause.
func TestLeadershipIsARegister(t *testing.T) {
	did, counted := map[string]int{}, map[string]int{}
	begin := time.Now()
	for seed := *flagFrom; seed < *flagFrom+*flagSeeds; seed++ {
		judge, acts, wrong := perform(t, seed, 5*time.Minute)
		for _, what := range wrong {
			t.Errorf("seed %d: %s", seed, what)
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
