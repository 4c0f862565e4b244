package configstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// shared holds the settings, the states and the mailboxes that the actors of one store share.
type shared struct {
	Config
	store *protocol.Store
	keys  protocol.Keys
	log   *slog.Logger

	// States: each has one writer.
	data        *messages.State[Snapshot]  // watcher
	confirmedAt *messages.State[time.Time] // pulse: when the cache was known to show what Consul has
	written     *messages.State[written]   // sender
	polls       store.Polls                // the watcher's
	queue       *messages.State[Queue]     // outbox
	known       *messages.State[string]    // sender: the last name under the sequence key
	begun       *messages.State[bool]      // initialiser: the key root exists

	// Commands.
	writes   *messages.Mailbox[submission, bool]  // callers to the outbox: is it in the log?
	next     *messages.Mailbox[struct{}, job]     // the sender asks the outbox
	verdicts *messages.Mailbox[verdict, struct{}] // the sender tells the outbox
	lifetime atomic.Pointer[lifetime]             // log opener
	opened   atomic.Pointer[outboxState]          // log opener, before the outbox starts
}

// submission is a write that the outbox is asked to take in.
type submission struct {
	ops  []Op
	call *call
}

// lifetime ends when the store stops. There is one for each run of the store; the first begins
// before the run does.
type lifetime struct {
	ctx context.Context
	end context.CancelFunc
}

func newLifetime() *lifetime {
	ctx, cancel := context.WithCancel(context.Background())
	return &lifetime{ctx, cancel}
}

func newShared(c Config, s *protocol.Store) *shared {
	sh := &shared{
		Config: c, store: s, keys: s.Keys(), log: c.Logger,
		data: messages.NewState(Snapshot{}), confirmedAt: messages.NewState(time.Time{}),
		written: messages.NewState(written{}),
		queue:   messages.NewState(Queue{}), known: messages.NewState(""),
		begun:    messages.NewState(false),
		writes:   messages.NewMailbox[submission, bool](),
		next:     messages.NewMailbox[struct{}, job](),
		verdicts: messages.NewMailbox[verdict, struct{}](),
	}
	sh.lifetime.Store(newLifetime())
	return sh
}

// written is the newest write of this store.
type written struct {
	index uint64
	at    time.Time // when it was known to be applied
}

// fresh tells whether the cache may answer: it was confirmed within MaxAge, and shows the newest
// write of this store.
func (sh *shared) fresh() bool {
	w := sh.written.Get()
	return sh.connected() &&
		(sh.data.Get().index >= w.index || sh.confirmedAt.Get().After(w.at))
}

// connected tells whether Consul has confirmed the cache within MaxAge.
func (sh *shared) connected() bool {
	return facts.Lease{Start: sh.confirmedAt.Get(), TTL: sh.MaxAge}.Valid(time.Now(), 0)
}

// wrote has the cache answer only once it shows a write. Cached is the index of the cache when that
// was sent: if it is larger, Consul was restored, and indexes say nothing.
func (sh *shared) wrote(index, cached uint64) {
	if index <= cached {
		index = math.MaxUint64
		sh.polls.Renew()
	}
	sh.written.Set(written{index, time.Now()})
}

// tree wires the actors in the order in which they start. They stop in reverse: the write under way
// ends, its caller is told, the log is closed last.
func tree(sh *shared) supervisor.Tree {
	opener := actor("log-opener", (&logOpener{shared: sh}).run)
	opener.Gate = true
	children := []supervisor.Child{
		opener,
		actor("watcher", (&watcher{shared: sh}).run),
		actor("pulse", (&pulse{shared: sh}).run),
	}
	if !sh.ReadOnly {
		children = append(children,
			actor("outbox", (&outbox{shared: sh}).run),
			actor("sender", (&sender{shared: sh}).run),
			actor("initialiser", (&initialiser{shared: sh}).run),
		)
	}
	return supervisor.Tree{Strategy: supervisor.OneForOne, Children: children}
}

// stopTimeout covers the request that an actor may have under way when it is to stop.
const stopTimeout = 2*store.DefaultCallTimeout + 4*time.Second

func actor(name string, run func(context.Context) error) supervisor.Child {
	return supervisor.Child{Name: name, Run: run, StopTimeout: stopTimeout,
		HealthyAfter: 10 * time.Second}
}

// logOpener opens and replays the log before the other actors start and closes it after they have
// stopped. The queue outlives their restarts.
type logOpener struct{ *shared }

func (a *logOpener) run(ctx context.Context) error {
	opened, err := openOutbox(a.Config, a.keys.Service())
	if err != nil {
		a.lifetime.Load().end() // nobody waits for a store that does not begin
		return supervisor.Escalate(fmt.Errorf("%w: %w", ErrLog, err))
	}
	if n := len(opened.queue.jobs); n > 0 {
		a.log.Info("config-log-replayed", "writes", n, "dir", a.LogDir)
	}
	a.opened.Store(opened)
	a.queue.Set(opened.status(false)) // what the log holds waits from now on
	if a.lifetime.Load().ctx.Err() != nil {
		a.lifetime.Store(newLifetime())
	}
	supervisor.Ready(ctx)
	<-ctx.Done()
	a.lifetime.Load().end()
	if opened.wal != nil {
		return errors.Join(opened.wal.Close())
	}
	return nil
}
