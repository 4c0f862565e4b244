package configstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/wal"
)

// outbox takes writes in, logs them, hands them to the sender one after the other, marks what
// became of them, and answers the callers.
type outbox struct {
	*shared
	warned bool // a failure of the disk was logged
}

// outboxState is the log and the queue that it was replayed to. It outlives restarts of the actor.
// Without a log on disk wal is nil and the queue begins empty.
type outboxState struct {
	wal   *wal.Log
	first record
	queue *queue
	// last is the name of the last transaction known under the sequence key when no write was in
	// flight.
	last string

	conflicts string // the file; empty: there is no log
	sync      func(*os.File) error
	recent    []Conflict
	refused   int
}

// Queue says what waits to be written.
type Queue struct {
	Waiting int       // writes that are not in Consul yet
	Logged  int       // how many of them are on the disk
	Bytes   int       // about how much memory they take
	Oldest  time.Time // when the first of them was taken in; zero: none waits
	// Conflicts are the newest of the writes that were refused, or of which nobody can tell what
	// became, when nobody waited for them; Refused is how many there were since the start.
	Conflicts []Conflict
	Refused   int
	// Ready: writes are taken in.
	Ready bool
}

// openOutbox opens and replays the log.
func openOutbox(c Config, service string) (*outboxState, error) {
	size := c.MaxLogBytes
	if size == 0 {
		size = wal.DefaultMaxBytes
	}
	// A write takes less in memory than in the log, so the log's bound suffices for the queue.
	b := &outboxState{first: record{Version: recordVersion, ID: rand.Text(), Service: service,
		Next: 1}, queue: newQueue(c.MaxPending, int(size/2)), sync: c.sync}
	if c.LogDir == "" {
		return b, nil
	}
	if b.sync == nil {
		b.sync = (*os.File).Sync
	}
	log, records, err := wal.Open(c.LogDir, wal.Options{MaxBytes: size, Sync: b.sync})
	if err != nil {
		return nil, err
	}
	b.wal, b.conflicts = log, filepath.Join(log.Dir(), "conflicts")
	if err = b.replay(records, service); err == nil && len(records) == 0 {
		err = log.Append(b.first.encode())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.LogDir, err), log.Close())
	}
	return b, nil
}

func (b *outboxState) status(ready bool) Queue {
	q := Queue{Waiting: len(b.queue.jobs), Bytes: b.queue.bytes, Conflicts: slices.Clone(b.recent),
		Refused: b.refused, Ready: ready}
	for i, j := range b.queue.jobs {
		if j.logged {
			q.Logged++
		}
		if i == 0 {
			q.Oldest = j.taken
		}
	}
	return q
}

func (a *outbox) run(ctx context.Context) error {
	b := a.opened.Load()
	writesIn, nextIn, verdictsIn := a.writes.Open(), a.next.Open(), a.verdicts.Open()
	defer writesIn.Close()
	defer nextIn.Close()
	defer verdictsIn.Close()
	for {
		a.queue.Set(b.status(true))
		next := nextIn.Requests()
		if len(b.queue.jobs) == 0 {
			next = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case r := <-writesIn.Requests():
			if err := a.fault.Inject(ctx); err != nil {
				return err
			}
			r.Handle(func(_ context.Context, s submission) (bool, error) { return a.accept(b, s) })
		case r := <-next:
			r.Handle(func(context.Context, struct{}) (job, error) {
				j := b.queue.head(b.last)
				if j == nil {
					return job{}, errNoWrites
				}
				return *j, nil
			})
		case r := <-verdictsIn.Requests():
			r.Handle(func(_ context.Context, v verdict) (struct{}, error) {
				return struct{}{}, a.finish(b, v)
			})
			if err := a.fault.Inject(ctx); err != nil {
				return err
			}
		}
	}
}

// errNoWrites: the callers of all writes in the queue have gone away.
var errNoWrites = errors.New("nothing waits to be written")

// accept takes a write in, and returns whether it is in the log.
func (a *outbox) accept(b *outboxState, s submission) (logged bool, err error) {
	if len(b.queue.jobs) == 0 || b.queue.jobs[0].state != inFlight {
		b.last = a.known.Get()
	}
	j := &job{name: store.NewName(), ops: slices.Clone(s.ops), call: s.call,
		late: !a.connected() && !a.confirmedAt.Get().IsZero()} // zero: the cache was read just now
	if err := b.queue.join(a.data.Get(), time.Now(), j); err != nil || b.wal == nil {
		return false, err
	}
	line := j.record()
	line.Last = b.last
	if err := a.append(b, line.encode()); err != nil {
		b.queue.remove(j)
		what := "the write was not taken in"
		if errors.Is(err, ErrUncertain) {
			what = "if it does, the write is sent when the log is opened again"
		}
		return false, fmt.Errorf("%w: %w: %s", ErrLog, err, what)
	}
	j.logged = true
	return true, nil
}

// append logs a write. It rewrites the log first when the log is full of finished writes, or when a
// failure has left it unknown what the disk holds.
func (a *outbox) append(b *outboxState, record []byte) error {
	err := b.wal.Append(record)
	if !errors.Is(err, wal.ErrFull) && !errors.Is(err, wal.ErrBroken) {
		return err
	}
	if anew := b.wal.Rewrite(b.compact()...); anew != nil {
		return fmt.Errorf("%w; and it cannot be made anew: %v", err, anew)
	}
	return b.wal.Append(record)
}

// errNotLogged says that the disk did not accept what became of a write. The sender tells the
// verdict again, and sends nothing until then.
var errNotLogged = errors.New("the log cannot record what became of a write")

// finish tells the caller of a write the verdict, and removes the write from the queue. A refused
// write whose caller has gone, and counts on the log, goes into the file "conflicts". A refusal is
// on the disk before anybody hears of it: so after a crash the write is not sent again. A write
// stays in the queue until the log has its end: so only the first in a log can have been sent.
func (a *outbox) finish(b *outboxState, v verdict) error {
	j := b.queue.find(v.number)
	if j == nil {
		return nil // a sender that was restarted tells it twice
	}
	b.last = a.known.Get()
	if v.outcome != applied && j.logged && j.refused == "" {
		r := record{Refused: j.number, Why: v.err.Error(), Last: b.last}
		if a.mark(b, r, true) != nil {
			return errNotLogged
		}
		j.refused = r.Why
	}
	if !j.told {
		told := j.call != nil && j.call.tell(receipt{index: v.at, keys: v.keys}, v.err)
		if j.refused != "" && !told {
			if err := b.keep(j); err != nil {
				a.warn(err)
				return errNotLogged
			}
			a.log.Error("config-write-refused", "write", j.number, "key", j.ops[0].key, "keys",
				len(j.ops), "taken", j.taken, "err", j.refused, "kept_in", b.conflicts,
				"do", "compare it with what Consul has, and write it again if it is still wanted")
		}
		j.told = true
	}
	if j.logged {
		// Where no other write waits, the next one that is logged brings this to the disk.
		r := record{Done: j.number, Keys: v.keys, Last: b.last}
		if a.mark(b, r, len(b.queue.jobs) > 1) != nil {
			return errNotLogged
		}
	}
	b.queue.finish(j, v.keys, v.at)
	if b.wal != nil && len(b.queue.jobs) == 0 && b.wal.Size() > compactAt {
		a.warn(b.wal.Rewrite(b.compact()...))
	}
	return nil
}

func (a *outbox) warn(err error) {
	if err != nil && !a.warned {
		a.log.Error("config-log-failed", "err", err, "do",
			"see to the disk: writes wait until it takes what became of them")
	}
	a.warned = err != nil
}

// compactAt is the size from which the log is made anew once nothing waits.
const compactAt = 1 << 20

// mark records what became of a write that is still in the queue.
func (a *outbox) mark(b *outboxState, r record, synced bool) error {
	err := b.wal.Note(r.encode(), synced)
	if errors.Is(err, wal.ErrBroken) {
		err = b.wal.Rewrite(append(b.compact(), r.encode())...)
	}
	a.warn(err)
	return err
}
