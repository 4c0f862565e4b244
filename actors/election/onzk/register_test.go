package onzk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/play"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	consul "github.com/coordd/coordd/internal/store"
)

var (
	flagSeeds = flag.Uint64("seeds", 12, "how many histories the judge is given")
	flagFrom  = flag.Uint64("from", 0, "the first seed")
)

const (
	lease = 10 * time.Second
	// mostLate is how late a packet may be.
	mostLate = time.Minute
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

func (h *process) Connection() election.Connection { return h.to }
func (h *process) Lease() time.Duration            { return lease }
func (h *process) Killed() <-chan struct{}         { return h.dead }

// contest is one history of one election.
type contest struct {
	*play.Play[*process]
	s       *embedded
	busiest int           // the most requests in a second
	asked   int           // in all, at the last look
	delay   time.Duration // onzk.Config.LockDelay of all
	digest  string        // onzk.Config.Digest of all
}

type candidate = play.Candidate[*process]

// perform plays the history of a seed.
func perform(t *testing.T, seed uint64) (story play.Story) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		p := &contest{Play: play.New[*process](t, seed, s.log), s: s}
		p.NewHost = p.process
		defer s.zoo.Close()
		if p.Rand.IntN(3) == 0 {
			p.delay = -1 // no session is ended early then, and the lease alone has to do
		}
		if p.Rand.IntN(3) == 0 && !racing {
			p.digest = "user:secret" // is sent again on each connection, before its watches
		}
		p.Perform(play.Length, p.act, p.look, p.finish)
		if p.busiest > mostRequests {
			p.Wrong = append(p.Wrong, fmt.Sprintf("%d requests in one second", p.busiest))
		}
		story = play.Story{Judge: p.Judge, Did: p.Did, Wrong: p.Wrong}
	})
	return story
}

// way is one on which packets are slow, connections break, and the servers are behind.
func (p *contest) way() *devzookeeper.Way {
	w := devzookeeper.Weather{
		Rand: p.Seed(), Slow: p.UpTo(time.Second), Breaks: 20 + p.Rand.IntN(200),
		Late: p.UpTo(mostLate) / []time.Duration{1, 10, 100}[p.Rand.IntN(3)],
	}
	switch p.Rand.IntN(3) {
	case 0:
		w.Rand = nil
	case 1:
		w.Lag = p.UpTo(2 * time.Second)
	}
	return p.s.zoo.Way(w)
}

func (p *contest) process() *process {
	h := &process{way: p.way(), dead: make(chan struct{})}
	h.conn = p.s.connect(p.config(h.way))
	h.to = p.Judge.Record(h.conn)
	return h
}

func (p *contest) config(w *devzookeeper.Way) onzk.Config {
	return onzk.Config{Dial: w.Dial, SessionTimeout: lease, LockDelay: p.delay, Logger: p.s.log,
		Servers: addresses, Digest: p.digest}
}

// look reads who leads. When a leader has not given the leadership up, nobody can tell. It counts
// what all have asked since the last look, a second before.
func (p *contest) look() (id string, token uint64, ok bool) {
	now := p.s.zoo.Requests()
	p.busiest, p.asked = max(p.busiest, now-p.asked), now
	nodes := p.s.zoo.Nodes(onzk.DefaultRoot + "/" + play.Contested)
	if leader, there := nodes["leader"]; there {
		var value struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(leader.Data, &value)
		return value.ID, uint64(leader.Stat.Czxid), err == nil
	}
	state := p.s.zoo.Nodes(onzk.DefaultRoot)[play.Contested].Data
	return "", 0, !bytes.Contains(state, []byte("lock_delay"))
}

// act does the next thing.
func (p *contest) act() {
	p.Act([]play.Act[*process]{
		p.Joins(),
		p.Is("resigns", func(c *candidate) { c.Quit() }),
		p.Is("is handed over", func(*candidate) { p.handOver() }),
		p.Is("is cut off", p.cutOff),
		p.Is("is at a server that is cut off", func(c *candidate) { c.Host.way.Isolate() }),
		p.Is("has its session ended", p.end),
		p.Is("has its session ended unheard", func(c *candidate) {
			c.Host.way.Sever()
			p.end(c)
			p.mendLater(c.Host.way)
		}),
		p.Is("has its session ended at a server that is cut off", func(c *candidate) {
			c.Host.way.Isolate()
			p.end(c)
		}),
		p.Is("is deleted", func(*candidate) {
			p.beside(func(ctx context.Context, e *election.Election) error { return e.Delete(ctx) })
		}),
		p.Is("is deleted after its leader was lost", func(c *candidate) {
			p.cutOff(c)
			p.beside(func(ctx context.Context, e *election.Election) error { return e.Delete(ctx) })
		}),
		p.Is("has its process killed", func(c *candidate) { p.kill(c.Host) }),
		p.Is("has its process killed, and its guard says goodbye", p.depart),
		p.Is("has its connection closed", func(c *candidate) { p.replace(c.Host) }),
		p.Is("has its connection closed in the middle of something", p.closeAmid),
		p.Is("sees ZooKeeper elect", func(*candidate) { p.s.zoo.Elect() }),
		p.Is("sees ZooKeeper away", func(*candidate) {
			p.s.zoo.Stop()
			time.Sleep(p.UpTo(20 * time.Second))
			p.s.zoo.Start()
		}),
	}, 2, 8)
}

func (p *contest) cutOff(c *candidate) {
	c.Host.way.Sever()
	p.mendLater(c.Host.way)
}

func (p *contest) mendLater(w *devzookeeper.Way) {
	reset := p.Rand.IntN(2) == 0
	time.AfterFunc(p.UpTo(45*time.Second), func() { w.Mend(reset) })
}

// replace makes a new process instead of h, whose connection is closed.
func (p *contest) replace(h *process) {
	p.Forget(h)
	p.Aside.Go(func() { p.close(h) })
}

// kill ends a process. What it has sent goes on to arrive.
func (p *contest) kill(h *process) {
	p.Forget(h)
	close(h.dead)
	h.way.Kill()
	p.Aside.Go(func() {
		time.Sleep(2 * time.Minute)
		p.close(h)
	})
}

// depart has a guard say what the killed process did not.
func (p *contest) depart(c *candidate) {
	session := c.Host.conn.Contact().Get().Session
	p.kill(c.Host)
	way := p.way()
	p.standStill(way)
	cfg := p.config(way)
	p.Aside.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*lease)
		defer cancel()
		_, _ = onzk.Depart(ctx, cfg, play.Contested, session)
	})
}

// standStill cuts a way in the middle of something. What is under way arrives when it is mended.
func (p *contest) standStill(w *devzookeeper.Way) {
	after := p.UpTo(30 * time.Second)
	w.Trap(p.Rand.IntN(16), func() {
		w.Sever()
		time.Sleep(after)
		w.Mend(false)
	})
}

// closeAmid closes a connection beside one of its next requests: often while a candidate joins,
// gives the leadership up or is cut off. What is late goes on to arrive.
func (p *contest) closeAmid(c *candidate) {
	h := c.Host
	p.Forget(h)
	trapped := make(chan struct{})
	h.way.Trap(p.Rand.IntN(8), func() { close(trapped) })
	after := p.UpTo(3*time.Millisecond) * time.Duration(p.Rand.IntN(3))
	switch p.Rand.IntN(4) {
	case 0:
		c.Quit()
	case 1:
		p.cutOff(c)
	case 2:
		p.end(c)
	}
	p.Aside.Go(func() {
		select {
		case <-trapped:
		case <-time.After(20 * time.Second):
		}
		time.Sleep(after)
		p.close(h)
	})
}

func (p *contest) close(h *process) { h.conn.Close() }

// end ends the session as an operator does.
func (p *contest) end(c *candidate) {
	if session, _ := c.Host.conn.Credentials(); session != 0 && p.delay >= 0 {
		p.s.zoo.End(session)
	}
}

// beside gives an order as an operator, who does not wait for ever and may be told that it cannot
// be.
func (p *contest) beside(order func(context.Context, *election.Election) error) {
	h := p.process()
	if p.Rand.IntN(3) == 0 {
		p.standStill(h.way)
	}
	e := p.Election(h, election.Config{})
	patience := p.UpTo(3 * time.Minute)
	p.Aside.Go(func() {
		ctx, cancel := context.WithTimeout(p.T.Context(), patience)
		defer cancel()
		_ = order(ctx, e)
		p.close(h)
	})
}

func (p *contest) handOver() {
	to := p.Candidates[p.Rand.IntN(len(p.Candidates))]
	if p.Rand.IntN(4) == 0 { // who cannot hear of it any more
		p.cutOff(to)
	}
	p.beside(func(ctx context.Context, e *election.Election) error {
		return e.HandOver(ctx, to.Name)
	})
}

// finish brings everything to rest.
func (p *contest) finish() {
	p.s.zoo.Settle()
	time.Sleep(mostLate + time.Minute) // for what is late, and for orders
	// A Delete that was given up leaves an election that has ended.
	if at := p.s.zoo.Nodes(onzk.DefaultRoot)[play.Contested]; bytes.Contains(at.Data,
		[]byte("deleted")) {
		p.beside(func(_ context.Context, e *election.Election) error {
			return e.Delete(p.T.Context())
		})
		time.Sleep(time.Minute)
	}
	p.Nominate()
	bound, cancel := context.WithTimeout(context.Background(), ledWithin)
	for p.Leader() == nil && bound.Err() == nil {
		consul.Pause(bound, 100*time.Millisecond)
	}
	if p.Leader() == nil {
		story := fmt.Sprintf("nobody leads %v after all is well:", ledWithin)
		for _, c := range p.Candidates {
			story += fmt.Sprintf("\n%s: %+v %+v", c.Name, c.Election.State().Get(),
				c.Host.conn.Contact().Get())
		}
		for name, n := range p.s.zoo.Nodes(onzk.DefaultRoot + "/" + play.Contested) {
			story += fmt.Sprintf("\n%s %q by %x", name, n.Data, n.Stat.EphemeralOwner)
		}
		p.Wrong = append(p.Wrong, story)
	}
	cancel()
	p.Resign()
	for _, h := range p.Hosts {
		p.close(h)
	}
	p.Aside.Wait()
	time.Sleep(2*lease + 2*time.Second) // a last look
	for name := range p.s.zoo.Nodes(onzk.DefaultRoot + "/" + play.Contested) {
		if !strings.HasPrefix(name, "_e_") {
			p.Wrong = append(p.Wrong, "left behind: "+name)
		}
	}
}

// Candidates join, resign and are handed the leadership. Processes are cut off, killed and closed,
// at rest and in the middle of something. Sessions are ended, ZooKeeper elects and is away, its
// servers are behind or cut off, the election is deleted, and packets are late and lost. The lock
// of the election is a register all the same, somebody leads when all is well again, nothing of a
// candidate is left behind, and nobody asks without a pause.
func TestLeadershipIsARegister(t *testing.T) {
	play.IsARegister(t, *flagFrom, *flagSeeds, perform)
}
