package onconsul_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/play"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

var (
	flagSeeds = flag.Uint64("seeds", 12, "how many histories the judge is given")
	flagFrom  = flag.Uint64("from", 0, "the first seed")
)

// contested is the election of most tests.
const contested = play.Contested

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

func (h *process) Connection() election.Connection { return h.to }
func (h *process) Lease() time.Duration            { return h.lease }

// Killed never comes: the storm takes what a killed process says.
func (h *process) Killed() <-chan struct{} { return nil }

// contest is one history of one election.
type contest struct {
	*play.Play[*process]
	s *embedded
}

type candidate = play.Candidate[*process]

// perform plays the history of a seed.
func perform(t *testing.T, seed uint64) (story play.Story) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		p := &contest{play.New[*process](t, seed, s.log), s}
		p.NewHost, p.ByHand = p.process, p.leadByHand
		defer s.consul.Close()
		p.Perform(play.Length, p.act, s.look, p.finish)
		story = play.Story{Judge: p.Judge, Did: p.Did, Wrong: p.Wrong}
	})
	return story
}

// process makes a connection. Some are slow, and some of what they write comes again: much later,
// or so soon that the copy overtakes it.
// Most have a health check, and some a lease that is shorter than the session's TTL.
func (p *contest) process() *process {
	w := &storm{
		consul: p.s.consul, r: p.Seed(), slow: p.UpTo(2 * time.Second), calm: p.Rand.IntN(3) == 0,
		late: p.UpTo(mostLate) / []time.Duration{1, 10, 100}[p.Rand.IntN(3)],
	}
	n := p.Next()
	cfg := onconsul.Config{Client: devconsul.ClientOver(w), Logger: p.s.log,
		Name: fmt.Sprint("p", n&0xffff), Lease: onconsul.DefaultTTL}
	if p.Rand.IntN(3) == 0 {
		cfg.Lease = 5 * time.Second
	}
	if p.Rand.IntN(4) == 0 {
		cfg.CheckTTL = onconsul.NoCheck
	}
	conn, err := onconsul.Connect(cfg)
	if err != nil {
		p.T.Fatal(err)
	}
	return &process{conn: conn, to: p.Judge.Record(chilly{conn, w}), storm: w, name: cfg.Name,
		lease: cfg.Lease}
}

// look reads who leads. When a leader has not given the leadership up, nobody can tell.
func (s *embedded) look() (id string, token uint64, ok bool) {
	all, _, err := s.consul.Client().KV().List(onconsul.DefaultPrefix+play.Contested+"/state/",
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
		case strings.HasSuffix(pair.Key, "/election"):
			ok = value.LockDelay == 0
		}
	}
	return "", 0, ok
}

// act does the next thing.
func (p *contest) act() {
	p.Act([]play.Act[*process]{
		p.Joins(),
		p.Is("resigns", func(c *candidate) { c.Quit() }),
		p.Is("is handed over", func(*candidate) { p.handOver() }),
		p.Is("is cut off", func(c *candidate) {
			c.Host.storm.sever()
			time.AfterFunc(p.UpTo(45*time.Second), c.Host.storm.mend)
		}),
		p.Is("is frozen", func(c *candidate) {
			c.Host.storm.freeze()
			time.AfterFunc(p.UpTo(45*time.Second), c.Host.storm.thaw)
		}),
		p.Is("has its session ended", p.end),
		p.Is("has its session ended unheard", func(c *candidate) {
			p.lose(c)
			time.AfterFunc(p.UpTo(30*time.Second), c.Host.storm.mend)
		}),
		p.Is("has its session ended while it is told that it lives", func(c *candidate) {
			c.Host.storm.set(func() { p.end(c) })
			time.AfterFunc(p.UpTo(40*time.Second), c.Host.storm.mend)
		}),
		p.Is("has its session ended unheard, and Consul is restored", func(c *candidate) {
			p.lose(c)
			p.s.Restore()
			time.AfterFunc(p.UpTo(30*time.Second), c.Host.storm.mend)
		}),
		p.Is("is lost when it has just won, and Consul is restored", func(c *candidate) {
			c.Quit()
			time.Sleep(p.UpTo(4 * time.Second))
			if c = p.Leader(); c != nil { // what the others have sent may still be under way
				c.Host.storm.sever()
				p.end(c)
				p.s.Restore()
				time.AfterFunc(p.UpTo(30*time.Second), c.Host.storm.mend)
			}
		}),
		p.Is("has its instance taken away", p.takeAway),
		p.Is("has its instance taken away unheard", func(c *candidate) {
			c.Host.storm.sever()
			p.takeAway(c)
			time.AfterFunc(p.UpTo(30*time.Second), c.Host.storm.mend)
		}),
		p.Is("has an agent that takes no reports", func(c *candidate) {
			c.Host.storm.mute(true)
			time.AfterFunc(p.UpTo(20*time.Second), func() { c.Host.storm.mute(false) })
		}),
		p.Is("is lost behind an agent that takes no reports", func(c *candidate) {
			c.Host.storm.mute(true)
			time.AfterFunc(p.UpTo(7*time.Second), c.Host.storm.sever)
			time.AfterFunc(7*time.Second+p.UpTo(20*time.Second), func() {
				c.Host.storm.mute(false)
				c.Host.storm.mend()
			})
		}),
		p.Is("is deleted", func(*candidate) { p.delete() }),
		p.Is("is deleted after its leader was lost", func(c *candidate) {
			p.lose(c)
			p.delete()
			time.AfterFunc(p.UpTo(30*time.Second), c.Host.storm.mend)
			p.s.Restore()
		}),
		p.Is("has its process killed", func(c *candidate) {
			c.Host.storm.sever()
			p.replace(c.Host, 2*time.Minute)
		}),
		p.Is("has its connection closed", func(c *candidate) {
			p.replace(c.Host, 0)
		}),
		p.Is("has its connection closed in the middle of something", p.closeAmid),
		p.Is("sees Consul elect", func(*candidate) {
			past := p.s.consul.Snapshot()
			p.s.consul.ElectionStart()
			time.Sleep(p.UpTo(12 * time.Second))
			if p.Rand.IntN(2) == 0 {
				p.s.consul.ElectionEndBehind(past)
				time.Sleep(p.UpTo(8 * time.Second))
			}
			p.s.consul.ElectionEnd()
		}),
	}, 2, 4)
}

// replace makes a new process instead of h, whose connection is closed then.
func (p *contest) replace(h *process, then time.Duration) {
	p.Forget(h)
	p.Aside.Go(func() {
		time.Sleep(then)
		p.close(h)
	})
}

// closeAmid closes a connection beside one of its next requests: often while a candidate joins,
// gives the leadership up or is cut off. What is late goes on to arrive.
func (p *contest) closeAmid(c *candidate) {
	h := c.Host
	p.Forget(h)
	trapped := make(chan struct{})
	h.storm.lay(p.Rand.IntN(8), func() { close(trapped) })
	after := p.UpTo(3*time.Millisecond) * time.Duration(p.Rand.IntN(3))
	switch p.Rand.IntN(4) {
	case 0:
		c.Quit()
	case 1:
		h.storm.sever()
		time.AfterFunc(p.UpTo(30*time.Second), h.storm.mend)
	case 2:
		p.end(c)
	}
	p.Aside.Go(func() {
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
func (p *contest) close(h *process) {
	h.storm.thaw() // a frozen one cannot
	h.conn.Close()
	h.storm.settle()
}

// end ends the session as an operator does, who may not succeed.
func (p *contest) end(c *candidate) {
	_, _ = p.s.consul.Client().Session().Destroy(c.Host.conn.Contact().Get().Session, nil)
}

// takeAway deregisters the instance at the agent, and with it its check and its session.
func (p *contest) takeAway(c *candidate) {
	agent := p.s.consul.Client().Agent()
	instances, err := agent.Services()
	if err != nil {
		return // as an operator, who may not succeed
	}
	for id, i := range instances {
		if i.Meta["coordd-session"] == c.Host.name {
			_ = agent.ServiceDeregister(id)
		}
	}
}

// lose ends the session of one who does not hear of it, often just after it was renewed, when the
// lease is as good as new.
func (p *contest) lose(c *candidate) {
	if p.Rand.IntN(2) == 0 {
		ctx, cancel := context.WithTimeout(p.T.Context(), 4*time.Second)
		defer cancel()
		was := c.Host.conn.Contact().Get()
		_, _ = c.Host.conn.Contact().Wait(ctx, func(now election.Contact) bool {
			return now.Lease.Start != was.Lease.Start
		})
	}
	c.Host.storm.sever()
	p.end(c)
}

// beside gives an order as an operator, who does not wait for ever and may be told that it cannot
// be.
func (p *contest) beside(order func(context.Context, *election.Election) error) {
	h := p.process()
	e := p.Election(h, election.Config{})
	p.Aside.Go(func() {
		ctx, cancel := context.WithTimeout(p.T.Context(), time.Minute)
		defer cancel()
		_ = order(ctx, e)
		p.close(h)
	})
}

func (p *contest) handOver() {
	to := p.Candidates[p.Rand.IntN(len(p.Candidates))]
	if p.Rand.IntN(4) == 0 { // who cannot hear of it any more
		to.Host.storm.sever()
		time.AfterFunc(p.UpTo(30*time.Second), to.Host.storm.mend)
	}
	p.beside(func(ctx context.Context, e *election.Election) error {
		return e.HandOver(ctx, to.Name)
	})
}

func (p *contest) delete() {
	p.beside(func(ctx context.Context, e *election.Election) error { return e.Delete(ctx) })
}

// finish brings everything to rest.
func (p *contest) finish() {
	for _, h := range p.Hosts {
		h.storm.settle()
	}
	time.Sleep(15 * time.Second)
	p.Resign()
	for _, h := range p.Hosts {
		p.close(h)
	}
	p.Aside.Wait()
	time.Sleep(mostLate + 2*time.Second) // for what is late, and a last look
	if left := p.leftBehind(); len(left) > 0 {
		p.Wrong = append(p.Wrong, fmt.Sprintf("left behind: %q", left))
	}
}

// leftBehind is what is in Consul beside the state of the election.
func (p *contest) leftBehind() []string {
	keys, _, err := p.s.consul.Client().KV().Keys(onconsul.DefaultPrefix, "", nil)
	if err != nil {
		p.T.Error(err)
	}
	left := slices.DeleteFunc(keys, func(key string) bool {
		return strings.Contains(key, "/state/") && !strings.HasSuffix(key, "/leader")
	})
	sessions, _, err := p.s.consul.Client().Session().List(nil)
	if err != nil {
		p.T.Error(err)
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
	play.IsARegister(t, *flagFrom, *flagSeeds, perform)
}
