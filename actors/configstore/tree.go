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
	data  *messages.State[Snapshot] // keeper
	sight *messages.State[sight]    // watcher
	load  *messages.State[Load]     // watcher, and keeper at its end
	// pulse, and keeper after a whole read: what the cache showed when it was asked
	heard *messages.State[time.Time]
	doubt *messages.State[time.Time] // scribe: what was heard before then does not count
	polls store.Polls                // the watcher's
	slow  atomic.Int64               // nanoseconds that the last whole read took
	queue *messages.State[Queue]     // clerk
	claim *messages.State[claim]     // scribe
	birth *messages.State[Origin]

	// Commands.
	writes *messages.Mailbox[submission, receipt]  // callers to the clerk
	next   *messages.Mailbox[struct{}, job]        // the scribe asks the clerk
	over   *messages.Mailbox[outcome, struct{}]    // the scribe tells the clerk
	own    *messages.Mailbox[[]ownWrite, struct{}] // the scribe tells the keeper
	// the scribe asks the clerk to do without the marker
	retire *messages.Mailbox[struct{}, struct{}]
	life   atomic.Pointer[life] // librarian
	// opened by the librarian before the clerk and the scribe start
	book atomic.Pointer[openBook]
}

// openBook is the log on disk. Without one it is empty and there is only the writer's name.
type openBook struct {
	id    string // the marker's name
	wal   *wal.Log
	first record
	used  bool // writes were logged before it was opened
	line  *line
	notes *refusals
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
		data: messages.NewState(Snapshot{}), sight: messages.NewState(sight{}),
		load:  messages.NewState(Load{}),
		heard: messages.NewState(time.Time{}), doubt: messages.NewState(time.Time{}),
		queue: messages.NewState(Queue{}), claim: messages.NewState(claim{}),
		birth:  messages.NewState(OriginUnknown),
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
	librarian := actor("librarian", (&librarian{shared: sh}).run)
	librarian.Gate = true
	children := []supervisor.Child{
		librarian,
		actor("watcher", (&watcher{shared: sh}).run),
		actor("keeper", (&keeper{shared: sh}).run),
		actor("pulse", (&pulse{shared: sh}).run),
	}
	if !sh.ReadOnly {
		children = append(children,
			actor("clerk", (&clerk{shared: sh}).run),
			actor("scribe", (&scribe{shared: sh}).run),
			actor("founder", (&founder{shared: sh}).run),
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
