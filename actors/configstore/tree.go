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

// house is what every actor of one store is given.
type house struct {
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

func newHouse(c Config, s *store.Store, log *slog.Logger) *house {
	h := &house{
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
	h.life.Store(newLife())
	return h
}

// fresh tells whether the cache may answer: Consul's last word is not too old, and not in doubt.
func (h *house) fresh() bool { return h.inTouch() && h.heard.Get().After(h.doubt.Get()) }

// inTouch tells whether Consul's last word is not too old.
func (h *house) inTouch() bool {
	return messages.Lease{Start: h.heard.Get(), TTL: h.MaxAge}.Valid(time.Now(), 0)
}

// hears takes in that the cache shows what Consul had at a time.
func (h *house) hears(at time.Time) {
	if at.After(h.heard.Get()) {
		h.heard.Set(at)
	}
}

// doubts stops the cache from being believed until it was compared with Consul again, and has the
// watch read everything anew: Consul has lost writes, or somebody deletes what is not his.
func (h *house) doubts() {
	h.doubt.Set(time.Now())
	h.polls.Renew()
}

// tree wires the actors in the order in which they start; they stop in reverse: what is being
// written ends, callers are told, the log is closed last.
func tree(h *house) supervisor.Tree {
	librarian := actor("librarian", (&librarian{house: h}).run)
	librarian.Gate = true
	children := []supervisor.Child{
		librarian,
		actor("watcher", (&watcher{house: h}).run),
		actor("keeper", (&keeper{house: h}).run),
		actor("pulse", (&pulse{house: h}).run),
	}
	if !h.ReadOnly {
		children = append(children,
			actor("clerk", (&clerk{house: h}).run),
			actor("scribe", (&scribe{house: h}).run),
			actor("founder", (&founder{house: h}).run),
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
