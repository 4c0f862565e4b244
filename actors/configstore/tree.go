package configstore

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/wal"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// shared holds the settings, the states and the mailboxes that the actors of one store share.
type shared struct {
	Config
	store *store.Store
	keys  store.Keys
	log   *slog.Logger

	// States: each has one writer.
	data    *messages.State[Snapshot]    // cache updater
	watched *messages.State[watchedView] // watcher
	load    *messages.State[Load]        // watcher
	// pulse, and cache updater after a whole read: when the cache was last known to show what
	// Consul has
	heard  *messages.State[time.Time]
	doubt  *messages.State[time.Time] // writer: what was heard before then does not count
	polls  store.Polls                // the watcher's
	slow   atomic.Int64               // nanoseconds that the last whole read took
	queue  *messages.State[Queue]     // write queue
	claim  *messages.State[claim]     // writer
	origin *messages.State[Origin]

	// Commands.
	writes *messages.Mailbox[submission, receipt]  // callers to the write queue
	next   *messages.Mailbox[struct{}, job]        // the writer asks the write queue
	over   *messages.Mailbox[outcome, struct{}]    // the writer tells the write queue
	own    *messages.Mailbox[[]ownWrite, struct{}] // the writer tells the cache updater
	// the writer asks the write queue to begin the log anew, so that the marker can go
	retire *messages.Mailbox[struct{}, struct{}]
	life   atomic.Pointer[life] // log opener
	// opened by the log opener before the write queue and the writer start
	openLog atomic.Pointer[openLog]
}

// openLog is the open log, and what it was replayed to. If there is no log on disk, wal is nil and
// the queue begins empty.
type openLog struct {
	id       string // the marker's name
	wal      *wal.Log
	first    record
	used     bool // writes were logged before it was opened
	queue    *jobQueue
	refusals *refusals
}

// life ends when the store stops. There is one for each time that it runs, the first from before it
// does.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

func newLife() *life {
	ctx, cancel := context.WithCancel(context.Background())
	return &life{ctx, cancel}
}

func newShared(c Config, s *store.Store, log *slog.Logger) *shared {
	sh := &shared{
		Config: c, store: s, keys: s.Keys(), log: log,
		data: messages.NewState(Snapshot{}), watched: messages.NewState(watchedView{}),
		load:  messages.NewState(Load{}),
		heard: messages.NewState(time.Time{}), doubt: messages.NewState(time.Time{}),
		queue: messages.NewState(Queue{}), claim: messages.NewState(claim{}),
		origin: messages.NewState(OriginUnknown),
		writes: messages.NewMailbox[submission, receipt](), next: messages.NewMailbox[struct{},
			job](),
		over: messages.NewMailbox[outcome, struct{}](), own: messages.NewMailbox[[]ownWrite,
			struct{}](),
		retire: messages.NewMailbox[struct{}, struct{}](),
	}
	sh.life.Store(newLife())
	return sh
}

// fresh tells whether the cache may answer: Consul's last word is not too old, and not in doubt.
func (sh *shared) fresh() bool { return sh.inTouch() && sh.heard.Get().After(sh.doubt.Get()) }

// inTouch tells whether Consul's last word is not too old.
func (sh *shared) inTouch() bool {
	return messages.Lease{Start: sh.heard.Get(), TTL: sh.MaxAge}.Valid(time.Now(), 0)
}

// hears takes in that the cache shows what Consul had at a time.
func (sh *shared) hears(at time.Time) {
	if at.After(sh.heard.Get()) {
		sh.heard.Set(at)
	}
}

// doubts stops the cache from being believed until it was compared with Consul again, and has the
// watch read everything anew: Consul has lost writes, or somebody deletes what is not his.
func (sh *shared) doubts() {
	sh.doubt.Set(time.Now())
	sh.polls.Renew()
}

// tree wires the actors in the order in which they start; they stop in reverse: what is being
// written ends, callers are told, the log is closed last.
func tree(sh *shared) supervisor.Tree {
	opener := actor("log-opener", (&logOpener{shared: sh}).run)
	opener.Gate = true
	children := []supervisor.Child{
		opener,
		actor("watcher", (&watcher{shared: sh}).run),
		actor("cache-updater", (&cacheUpdater{shared: sh}).run),
		actor("pulse", (&pulse{shared: sh}).run),
	}
	if !sh.ReadOnly {
		children = append(children,
			actor("write-queue", (&writeQueue{shared: sh}).run),
			actor("consul-writer", (&consulWriter{shared: sh}).run),
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
