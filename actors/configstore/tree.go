package configstore

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/wal"
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
	data    *messages.State[Snapshot]    // cache updater
	watched *messages.State[watchedView] // watcher
	load    *messages.State[Load]        // watcher
	// pulse, and cache updater after a whole read: when the cache was last known to show what
	// Consul has
	confirmedAt *messages.State[time.Time]
	// writer: what was confirmed before then does not count
	invalidatedAt *messages.State[time.Time]
	polls         store.Polls             // the watcher's
	readTime      atomic.Int64            // nanoseconds that the last whole read took
	queue         *messages.State[Queue]  // write queue
	claim         *messages.State[claim]  // writer
	denied        *messages.State[denial] // writer
	origin        *messages.State[Origin]

	// Commands.
	writes    *messages.Mailbox[submission, receipt]  // callers to the write queue
	nextWrite *messages.Mailbox[struct{}, job]        // the writer asks the write queue
	outcomes  *messages.Mailbox[outcome, struct{}]    // the writer tells the write queue
	ownWrites *messages.Mailbox[[]ownWrite, struct{}] // the writer tells the cache updater
	// the writer asks the write queue whether the marker can go, and then to begin the log anew
	logResets *messages.Mailbox[logReset, struct{}]
	lifetime  atomic.Pointer[lifetime] // log opener
	// opened by the log opener before the write queue and the writer start
	openLog atomic.Pointer[openLog]
}

// openLog is the open log and the queue that it was replayed to. Without a log on disk wal is nil
// and the queue begins empty.
type openLog struct {
	id       string // the marker's name
	wal      *wal.Log
	first    record
	last     uint64 // the number of the last write before it was opened
	queue    *jobQueue
	refusals *refusals
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

func newShared(c Config, s *protocol.Store, log *slog.Logger) *shared {
	sh := &shared{
		Config: c, store: s, keys: s.Keys(), log: log,
		data: messages.NewState(Snapshot{}), watched: messages.NewState(watchedView{}),
		load:        messages.NewState(Load{}),
		confirmedAt: messages.NewState(time.Time{}), invalidatedAt: messages.NewState(time.Time{}),
		queue: messages.NewState(Queue{}), claim: messages.NewState(claim{}),
		denied: messages.NewState(denial{}),
		origin: messages.NewState(OriginUnknown),
		writes: messages.NewMailbox[submission, receipt](), nextWrite: messages.NewMailbox[struct{},
			job](),
		outcomes: messages.NewMailbox[outcome, struct{}](),
		ownWrites: messages.NewMailbox[[]ownWrite,
			struct{}](),
		logResets: messages.NewMailbox[logReset, struct{}](),
	}
	sh.lifetime.Store(newLifetime())
	return sh
}

// fresh tells whether the cache may answer: it was confirmed within MaxAge, and not invalidated
// since.
func (sh *shared) fresh() bool {
	return sh.connected() && sh.confirmedAt.Get().After(sh.invalidatedAt.Get())
}

// connected tells whether Consul has confirmed the cache within MaxAge.
func (sh *shared) connected() bool {
	return messages.Lease{Start: sh.confirmedAt.Get(), TTL: sh.MaxAge}.Valid(time.Now(), 0)
}

// confirm notes that the cache shows what Consul had at a time.
func (sh *shared) confirm(at time.Time) {
	if at.After(sh.confirmedAt.Get()) {
		sh.confirmedAt.Set(at)
	}
}

// invalidate stops the cache from answering until it was compared with Consul again, and has the
// watch read everything anew. It is for a Consul that has lost writes, or a stranger's deletes.
func (sh *shared) invalidate() {
	sh.invalidatedAt.Set(time.Now())
	sh.polls.Renew()
}

// tree wires the actors in the order in which they start. They stop in reverse: the write under way
// ends, callers are told, the log is closed last.
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
