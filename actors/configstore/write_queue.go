package configstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/wal"
	"github.com/coordd/coordd/messages"
)

// writeQueue takes writes in, logs them, hands them to the writer one after the other, and answers
// the callers.
type writeQueue struct {
	*shared
	claimed   claim
	number    uint64           // of the last claim that had one
	retry     <-chan time.Time // when refused writes are saved again; nil: all are saved
	logFailed bool             // a failure of the write log was logged
}

// Queue says what waits to be written.
type Queue struct {
	Waiting int       // writes that are not in Consul yet
	Logged  int       // how many of them are on the disk
	Bytes   int       // about how much memory they take
	Oldest  time.Time // when the first of them was taken in; zero: none waits
	// Denied: Consul has denied the first of them, which is tried again ([DeniedLimit]).
	Denied error
	// Conflicts are the newest of the writes that were refused when nobody waited for
	// them; Refused is how many there were since the start.
	Conflicts []Conflict
	Refused   int
	// Unkept is how many refused writes are not in the file "conflicts" yet, and so stay in the
	// log: the newest of them. UnkeptErr says why; nil: it was not tried yet.
	Unkept    int
	UnkeptErr error
	// Ready: writes are taken in. When they are not, Err says why; nil: Consul has not answered
	// yet.
	Ready bool
	Err   error
}

// outcome is what became of a write.
type outcome struct {
	seq  uint64
	err  error // nil: applied
	keys map[string]uint64
	at   uint64
}

// pendingCall is a call that waits for its answer. The caller may leave when its context ends, or
// the write queue answers. Whoever sets settled first decides.
type pendingCall struct {
	logged   chan struct{} // closed when the write is in the log
	settled  atomic.Bool   // the caller has left, or is answered
	answered chan struct{} // closed once the two below are there
	receipt  receipt
	err      error
}

func newPendingCall() *pendingCall {
	return &pendingCall{logged: make(chan struct{}), answered: make(chan struct{})}
}

// batchSize is how many writes are logged by one fsync.
const batchSize = 64

func (a *writeQueue) run(ctx context.Context) error {
	b := a.openLog.Load()
	claims, denials := a.claim.Subscribe(), a.denied.Subscribe()
	defer func() {
		if ctx.Err() != nil {
			a.answerAll(b, ErrStopped)
		}
	}()
	a.saveRefusals(b)
	a.publish(b)
	writesIn, nextIn, outcomesIn, resetsIn := a.writes.Open(), a.nextWrite.Open(),
		a.outcomes.Open(),
		a.logResets.Open()
	defer writesIn.Close()
	defer nextIn.Close()
	defer outcomesIn.Close()
	defer resetsIn.Close()
	for {
		writes, next := writesIn.Requests(), nextIn.Requests()
		if !a.claimed.known {
			writes = nil
		}
		if len(b.queue.jobs) == 0 {
			next = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-claims.Changed():
			a.takeClaim(b, claims.Take())
		case <-denials.Changed():
			denials.Take() // to be published
		case r := <-writes:
			if err := a.accept(ctx, b, writesIn.Requests(), r); err != nil {
				return err
			}
		case r := <-next:
			a.takeClaim(b, claims.Take()) // it may be newer than the queue
			r.Handle(func(context.Context, struct{}) (job, error) {
				j := b.queue.head()
				if j == nil {
					return job{}, errNoWrites
				}
				return *j, nil
			})
		case <-a.retry:
			a.saveRefusals(b)
		case r := <-resetsIn.Requests():
			r.Handle(func(_ context.Context, step logReset) (struct{}, error) {
				return struct{}{}, a.resetLog(b, step)
			})
		case r := <-outcomesIn.Requests():
			r.Handle(func(_ context.Context, o outcome) (struct{}, error) {
				return struct{}{}, a.finish(b, o)
			})
			if err := a.fault.Inject(ctx); err != nil {
				return err
			}
		}
		a.publish(b)
	}
}

// takeClaim takes over the writer's claim: whether this store can write, and the number of its last
// write. After another process has had the marker, the numbers given before could be those of its
// writes. So all who wait are answered then.
func (a *writeQueue) takeClaim(b *openLog, c claim) {
	a.claimed = c
	b.queue.next = max(b.queue.next, c.seq+1)
	if c.number != 0 {
		if a.number != 0 && a.number != c.number { // it was taken and claimed again in between
			a.answerAll(b, fmt.Errorf("%w, or did meanwhile", ErrTaken))
		}
		a.number = c.number
	}
	if errors.Is(c.err, ErrTaken) {
		a.answerAll(b, c.err)
	}
}

// errNoWrites: the callers of all writes in the queue have gone away.
var errNoWrites = errors.New("nothing waits to be written")

// accept takes a write in, and others that wait as well: one fsync is good for all of them.
func (a *writeQueue) accept(ctx context.Context, b *openLog, writes <-chan *request,
	r *request) error {
	batch := []*request{r}
	for more := true; more && len(batch) < batchSize; {
		select {
		case r := <-writes:
			batch = append(batch, r)
		default:
			more = false
		}
	}
	taken := map[*request]bool{}
	defer func() { // an actor that fails here has promised nothing
		for _, r := range batch {
			if !taken[r] {
				r.Reply(receipt{}, fmt.Errorf("%w: the write was not taken in",
					messages.ErrAbandoned))
			}
		}
	}()
	if err := a.fault.Inject(ctx); err != nil {
		return err
	}
	snapshot, connected, now := a.data.Get(), a.connected(), time.Now()
	var jobs []*job
	var records [][]byte
	for _, r := range batch {
		if a.claimed.err != nil {
			taken[r] = true
			r.Reply(receipt{}, a.claimed.err)
			continue
		}
		j, err := b.queue.join(snapshot, connected, now, r)
		taken[r] = true
		if err != nil {
			r.Reply(receipt{}, err)
			continue
		}
		r.Keep() // it is in the queue, which outlives this actor
		if b.wal != nil && !r.Value.unlogged {
			jobs, records = append(jobs, j), append(records, j.record())
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	if err := a.append(b, jobs, records); err != nil {
		for _, j := range slices.Backward(jobs) {
			b.queue.drop(j)
			what := "the write was not taken in"
			if errors.Is(err, ErrUncertain) {
				what = "if it does, the write is sent when the log is opened again"
			}
			j.request.Reply(receipt{}, fmt.Errorf("%w: %w: %s", ErrLog, err, what))
		}
		return nil
	}
	for _, j := range jobs {
		j.logged = true
		close(j.request.Value.call.logged)
	}
	return nil
}

// append logs writes. It rewrites the log first when the log is full of finished writes, or when a
// failure has left it unknown what the disk holds.
func (a *writeQueue) append(b *openLog, jobs []*job, records [][]byte) error {
	err := b.wal.Append(records...)
	if !errors.Is(err, wal.ErrFull) && !errors.Is(err, wal.ErrBroken) {
		return err
	}
	if anew := b.wal.Rewrite(compactLog(b.first, b.queue, b.refusals)...); anew != nil {
		return fmt.Errorf("%w; and it cannot be made anew: %v", err, anew)
	}
	return b.wal.Append(records...)
}

// needed tells whether there are writes in the log that are not over.
func (b *openLog) needed() bool {
	return len(b.refusals.unsaved) > 0 ||
		slices.ContainsFunc(b.queue.jobs, func(j *job) bool { return j.logged })
}

// errLogNeeded: there are writes in the log.
var errLogNeeded = errors.New("the log counts on it")

// logReset is a step of replacing an empty log. A new log has a new marker. So the old marker is
// deleted between the two steps: if Consul is away then, the log stays as it is, and no marker is
// left behind.
type logReset uint8

const (
	endLog    logReset = iota // the disk knows that all is over, and nothing is taken in any more
	beginAnew                 // its marker is gone, so it is begun under another name
)

// resetLog does one of them.
func (a *writeQueue) resetLog(b *openLog, step logReset) error {
	if b.needed() {
		return errLogNeeded
	}
	a.claimed = claim{known: true, err: ErrStopped}
	if step == endLog {
		// Without the marker only the log tells what was applied, and the marks of that may be
		// missing: see [writeQueue.logDone].
		return b.wal.Rewrite(compactLog(b.first, b.queue, b.refusals)...)
	}
	return b.wal.Rewrite(encodeRecord(firstRecord(a.Owner, b.first.Service)))
}

// errNotLogged says that the disk did not accept the record of a refused write. The writer reports
// the outcome again.
var errNotLogged = errors.New("the log cannot record that a write was refused")

// finish removes a write from the queue and tells its caller the outcome; if the caller has gone,
// it tells whoever reads the log. A refusal is on the disk before anybody hears of it: after a
// crash the write must not be sent again.
func (a *writeQueue) finish(b *openLog, o outcome) error {
	j := b.queue.find(o.seq)
	if j == nil {
		return nil // a writer that was restarted tells it twice
	}
	if o.err != nil && j.logged {
		if err := a.logRefusal(b, record{Refused: o.seq, Why: o.err.Error()}); err != nil {
			if !a.logFailed {
				a.log.Error("config-log-failed", "err", err, "do",
					"see to the disk: writes wait until it takes their outcome")
			}
			a.logFailed = true
			return errNotLogged
		}
		a.logFailed = false
	}
	b.queue.finish(o.seq, o.keys)
	told := j.takeReply()
	if told { // before the disk is waited for: nobody else can answer any more
		j.answer(receipt{index: o.at, keys: o.keys}, o.err)
	}
	if !told && o.err != nil && j.logged {
		b.refusals.unsaved = append(b.refusals.unsaved, unsavedRefusal{job: j, why: o.err.Error()})
		a.saveRefusals(b)
	} else if b.wal != nil {
		a.logDone(b, record{Done: o.seq, Keys: o.keys})
	}
	return nil
}

// logRefusal records on the disk that a write was refused. The marker in Consul cannot tell it any
// more once a later write was applied.
func (a *writeQueue) logRefusal(b *openLog, r record) error {
	err := b.wal.NoteSynced(encodeRecord(r))
	if errors.Is(err, wal.ErrBroken) {
		err = b.wal.Rewrite(append(compactLog(b.first, b.queue, b.refusals), encodeRecord(r))...)
	}
	return err
}

// saveRetry is how long to wait before refused writes are saved again after a failure.
const saveRetry = 5 * time.Second

// saveRefusals reports writes that were refused when their callers had gone. Each stays in the log
// until its value is in the file.
func (a *writeQueue) saveRefusals(b *openLog) {
	a.retry = nil
	kept := b.refusals.file
	if b.refusals.failed != nil {
		kept = "the log, until " + kept + " takes it"
	}
	for i := range b.refusals.unsaved {
		u := &b.refusals.unsaved[i]
		if u.reported {
			continue
		}
		u.reported = true
		b.refusals.count(u)
		a.log.Error("config-write-refused", "write", u.job.seq, "key", u.job.ops[0].key, "keys",
			len(u.job.ops), "taken", u.job.taken, "err", u.why,
			"do", "compare it with what Consul has, and write it again if it is still wanted",
			"kept_in", kept)
	}
	for len(b.refusals.unsaved) > 0 {
		u, failed := b.refusals.unsaved[0], b.refusals.failed != nil
		if b.refusals.failed = b.refusals.save(&u); b.refusals.failed != nil {
			if !failed {
				a.log.Error("config-write-not-kept", "write", u.job.seq, "err", b.refusals.failed,
					"do", "see to the disk: the write stays in the log until the file takes it")
			}
			a.retry = time.After(saveRetry)
			return
		}
		b.refusals.unsaved = b.refusals.unsaved[1:]
		a.logDone(b, record{Done: u.job.seq})
	}
}

// compactAt is the size from which the log is made anew once nothing waits.
const compactAt = 1 << 20

// logDone marks a write as over. The mark may be lost in a crash: the marker in Consul tells too
// that a write was applied, and the log that it was refused.
func (a *writeQueue) logDone(b *openLog, over record) {
	var err error
	if len(b.queue.jobs) == 0 && b.wal.Size() > compactAt {
		err = b.wal.Rewrite(compactLog(b.first, b.queue, b.refusals)...)
	} else {
		err = b.wal.Note(encodeRecord(over))
	}
	if errors.Is(err, wal.ErrBroken) {
		err = b.wal.Rewrite(compactLog(b.first, b.queue, b.refusals)...)
	}
	if err != nil {
		a.log.Error("config-log-failed", "err", err)
	}
}

// answerAll answers everyone who waits. What is logged stays in the log.
func (a *writeQueue) answerAll(b *openLog, why error) {
	left := fmt.Errorf("%w: %w", why, ErrPending)
	if err := a.findLog(b); err != nil {
		left = fmt.Errorf("%w: %w: %w: the write is lost if it is not in Consul when this process "+
			"ends", why, ErrLog, err)
	}
	for _, j := range slices.Clone(b.queue.jobs) {
		if j.logged {
			if j.takeReply() { // what becomes of it later is reported elsewhere
				j.answer(receipt{}, left)
			}
			continue
		}
		b.queue.finish(j.seq, nil)
		j.request.Reply(receipt{}, why)
	}
}

// findLog makes a log anew that was removed and that somebody counts on. The error says that it is
// gone all the same.
func (a *writeQueue) findLog(b *openLog) error {
	if !b.needed() {
		return nil
	}
	gone := b.wal.Held()
	if gone == nil {
		return nil
	}
	if err := b.wal.Rewrite(compactLog(b.first, b.queue, b.refusals)...); err != nil {
		err = fmt.Errorf("%w; and it cannot be made anew: %w", gone, err)
		a.log.Error("config-log-failed", "err", err)
		return err
	}
	return nil
}

func (a *writeQueue) publish(b *openLog) {
	q := Queue{Waiting: len(b.queue.jobs), Bytes: b.queue.bytes,
		Conflicts: slices.Clone(b.refusals.recent), Refused: b.refusals.total,
		Unkept: len(b.refusals.unsaved), UnkeptErr: b.refusals.failed,
		Ready: a.claimed.known &&
			a.claimed.err == nil, Err: a.claimed.err}
	for _, j := range b.queue.jobs {
		if j.logged {
			q.Logged++
		}
	}
	if q.Waiting > 0 {
		q.Oldest = b.queue.jobs[0].taken
		if d := a.denied.Get(); d.seq == b.queue.jobs[0].seq {
			q.Denied = d.err
		}
	}
	a.queue.Set(q)
}
