package actor

import (
	"context"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// StuckAfter is how long an actor may be at one message without a call to Consul coming back, or a
// part of an answer. Its longest single call is the reading of a large prefix: 30 s. Beyond that it
// hangs: in a host's code, in a host's way to Consul, or by a fault of ours.
const StuckAfter = 45 * time.Second

// progress knows which actors are at work on a message, and since when. The session is not renewed
// while one of them hangs: the lease ends, and with it all that this member holds. A member that
// kept its lease and did nothing would keep its items, or the whole service, from everybody.
type progress struct {
	mu     sync.Mutex
	rounds map[string]round // by the actor's path
}

// round is what an actor is at.
type round struct {
	since time.Time     // when it took the message, or when a call of it came back last
	waits time.Duration // how long such a call waits for news
}

// longestPoll is how long the long poll of a watch waits at the server.
const longestPoll = store.DefaultPollWait + store.DefaultPollWait/16

func newProgress() *progress { return &progress{rounds: map[string]round{}} }

// busy is called when an actor has taken a message.
func (p *progress) busy(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rounds[supervisor.Path(ctx)] = round{since: time.Now()}
}

// polls is called when an actor is about to wait for news from Consul: the way there is the host's,
// and may not come back.
func (p *progress) polls(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rounds[supervisor.Path(ctx)] = round{since: time.Now(), waits: longestPoll}
}

// moves is called when a call of an actor to Consul has come back, or a part of its answer.
func (p *progress) moves(actor string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.rounds[actor]; ok {
		r.since = time.Now()
		p.rounds[actor] = r
	}
}

// idle is called when an actor is about to wait for a message, and when it has ended.
func (p *progress) idle(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rounds, supervisor.Path(ctx))
}

// stuck finds the actor that has hung for the longest time; the empty string if none does. Nothing
// counts from before woke, when this process began to run again.
func (p *progress) stuck(now, woke time.Time) (actor string, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a, r := range p.rounds {
		r.since = Latest(r.since, woke)
		if now.Sub(r.since) >= r.waits+StuckAfter && (actor == "" || r.since.Before(since)) {
			actor, since = a, r.since
		}
	}
	return actor, since
}

// Tracked makes the progress of an actor known while it runs.
func (b *Base) Tracked(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		b.progress.busy(ctx)
		defer b.progress.idle(ctx)
		actor := supervisor.Path(ctx)
		return run(store.WithReturns(ctx, func() { b.progress.moves(actor) }))
	}
}
