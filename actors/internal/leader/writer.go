package leader

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// inFlight is how many transactions are under way at once: 100,000 keys take 3.9 s one by one and
// 3.0 s with four; more gain nothing.
const inFlight = 4

// skipPause is how soon something is tried again that Consul refuses for itself.
const skipPause = 30 * time.Second

const (
	// mostRefusals is how often in a row a condition of an order may fail to hold, read anew each
	// time: the watches may hear late of what it is about.
	mostRefusals = 3
	// mostAlone is how many orders are sent alone, one after the other, in one round.
	mostAlone = 8
)

// One rule for what fails:
//
//   - An order is refused that Consul denies, calls invalid, or one of whose conditions has not held
//     three times in a row. It may not be to blame, for others were in its transaction: so it is
//     sent once more alone. If that is refused too it is skipped for 30 s, and named in the leader
//     state. All others go on.
//   - A condition that does not hold once: what the leader knows is out of date. The keys concerned
//     are read, and it plans anew.
//   - All else leaves an outcome unknown, or the leader is deposed: it takes a new epoch, reads
//     everything, and plans anew.

// errStale: what is known may differ from Consul.
var errStale = errors.New("the outcome of a write is not known")

// refusals are the orders that were refused, by what they are about.
type refusals map[string]refusal

type refusal struct {
	times   int    // in a row
	session string // of the grant: one under another session has other conditions
	alone   bool
	until   time.Time // it is skipped; zero: it is not
	why     string
}

// sendable parts the orders: those that go together, those that go alone, and when one that is
// skipped goes again. What nobody orders any more is forgotten.
func (r refusals) sendable(orders []order, keys protocol.Keys, now time.Time) (batch,
	alone []*order, retry time.Time) {
	still := map[string]bool{}
	for i := range orders {
		o := &orders[i]
		if len(r) == 0 {
			batch = append(batch, o)
			continue
		}
		key := o.about(keys)
		x, refused := r[key]
		if refused && o.session != "" && x.session != o.session {
			delete(r, key)
			refused, x = false, refusal{}
		}
		still[key] = refused
		switch {
		case !x.alone:
			batch = append(batch, o)
		case now.Before(x.until):
			if retry.IsZero() || x.until.Before(retry) {
				retry = x.until
			}
		case len(alone) < mostAlone:
			alone = append(alone, o)
		default:
			retry = now
		}
	}
	maps.DeleteFunc(r, func(key string, x refusal) bool { return !still[key] && now.After(x.until) })
	return batch, alone, retry
}

// refused takes in that an order was refused with so many sent; for good: not because what is known
// is out of date.
func (r refusals) refused(o *order, key string, err error, sent int, forGood bool) (skipped bool) {
	x := r[key]
	x.times++
	x.session, x.why = cmp.Or(o.session, x.session), err.Error()
	if skipped = sent == 1 && (forGood || x.alone); skipped {
		x.until = time.Now().Add(skipPause)
	}
	x.alone = x.alone || forGood || x.times >= mostRefusals
	r[key] = x
	return skipped
}

// mostNamed is how many skipped orders the leader state names.
const mostNamed = 20

// named are the orders that are skipped now, and why, for those who look.
func (r refusals) named(now time.Time) map[string]string {
	var named map[string]string
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if now.Before(r[key].until) && len(named) < mostNamed {
			if named == nil {
				named = map[string]string{}
			}
			named[key] = protocol.Line(r[key].why)
		}
	}
	return named
}

// open begins to write in this epoch: nothing that was under way before is applied any more.
//
// It makes the sentinels below control/ and, as long as that is empty, workload/: a watch of an
// empty prefix is woken by every neighbour. One that is there already changes nothing and wakes
// nobody. A workload that holds items gets none: it would make the watch read all of them again.
func (a *Assigner) open(ctx context.Context) (err error) {
	sentinels := []store.Op{store.Set(a.Keys.Control(), nil, 0)}
	if a.views.workload.Get().Items.Len() == 0 {
		sentinels = append(sentinels, store.Set(a.Keys.Workload(), nil, 0))
	}
	a.writer, err = store.OpenWriter(ctx, a.Store, store.CheckIndex(a.Keys.Leader(), a.epoch.Epoch),
		a.Keys.Sequence("leader/"), inFlight, sentinels...)
	if errors.Is(err, store.ErrRefused) {
		return errStale
	}
	if err == nil {
		a.events.comment(a.writer, func() *inputs { return a.planned })
	}
	return err
}

// write writes a plan, and takes in what was applied. It returns whether anything was sent, and when
// an order goes again that is skipped. [store.ErrRefused]: to be planned anew.
func (a *Assigner) write(ctx context.Context, p plan) (sent bool, retry time.Time, err error) {
	batch, alone, retry := a.refusals.sendable(p.orders, a.Keys, a.planned.now)
	news, due := a.events.newsUnit(a.planned.now, a.Merge, len(batch)+len(alone))
	if len(batch) > 0 || due {
		err = a.send(ctx, batch, news, due)
	}
	for i := 0; i < len(alone) && err == nil; i++ {
		err = a.send(ctx, alone[i:i+1], store.Unit{}, false)
	}
	return len(batch)+len(alone) > 0 || due, retry, err
}

// send sends orders, and takes in what was applied.
func (a *Assigner) send(ctx context.Context, orders []*order, news store.Unit, told bool) error {
	units := make([]store.Unit, 0, len(orders)+1)
	encode := encoder{keys: a.Keys}
	if told {
		units = append(units, news)
	}
	for _, o := range orders {
		units = append(units, encode.unit(o))
	}
	outcomes := a.writer.Write(ctx, units)
	if told {
		if err := outcomes[0].Err; err == nil || refusedForGood(err) {
			a.events.told() // or it never can be
		}
		outcomes = outcomes[1:]
	}
	outdated, done := map[string]bool{}, map[string]int{}
	var doubt, refused error
	for i, out := range outcomes {
		o, condition := orders[i], (*store.RefusedError)(nil)
		switch {
		case out.Err == nil:
			a.applied(o, out.Result.Index)
			done[o.verb()]++
		case errors.Is(out.Err, store.ErrNotSent):
		case refusedForGood(out.Err):
			a.refuse(o, out.Err, len(orders), true)
			a.unsure = a.unsure || errors.Is(out.Err, store.ErrDenied)
		case errors.As(out.Err, &condition) && !condition.Guard:
			outdated[o.from], outdated[o.to] = true, true
			if refused = out.Err; ofUnit(condition, out.Unit) {
				a.refuse(o, out.Err, len(orders), false)
			}
		default: // of the guard or a sequence key, or the outcome is unknown
			doubt = out.Err
		}
	}
	if doubt != nil {
		a.Log.Info("write-in-doubt", "epoch", a.epoch.Epoch, "err", doubt, "then",
			"taking a new epoch and reading everything anew")
		return errStale
	}
	for what, n := range done {
		a.Log.Info("assignments-written", "what", what, "items", n)
		a.ladder.Reset()
	}
	if refused == nil {
		return nil
	}
	a.Log.Debug("assignments-refused", "err", refused)
	delete(outdated, "")
	return cmp.Or(a.readOutdated(ctx, slices.Sorted(maps.Keys(outdated))), refused)
}

// refusedForGood tells of an error whether it is the word about an order, and not about Consul or
// the leader. It changed nothing, and will not.
func refusedForGood(err error) bool {
	return store.LacksRights(err) || errors.Is(err, store.ErrInvalid)
}

// ofUnit tells whether the condition that refused is one of the unit's.
func ofUnit(r *store.RefusedError, u store.Unit) bool {
	return r.Op >= 0 || slices.ContainsFunc(u.Shared,
		func(op store.Op) bool { return op.Key() == r.Key })
}

func (a *Assigner) refuse(o *order, err error, sent int, forGood bool) {
	key := o.about(a.Keys)
	if a.refusals.refused(o, key, err, sent, forGood) {
		a.unreadable.Skip(store.Entry{Key: key}, err.Error())
	}
}

// readOutdated reads the keys of members about which a write was refused: something had changed in
// between.
func (a *Assigner) readOutdated(ctx context.Context, ids []string) error {
	for _, id := range ids {
		a.absences.refused(id)
		delete(a.readAt, id)
	}
	read, err := a.readKeys(ctx, ids)
	if err != nil {
		return errStale
	}
	for i, id := range ids {
		a.known.load(a.Keys, id, read[i], a.unreadable.Skip)
	}
	return nil
}

// applied takes in an order that was carried out with that index.
func (a *Assigner) applied(o *order, index uint64) {
	if a.Observer != nil {
		a.observe(o)
	}
	if len(a.refusals) > 0 {
		delete(a.refusals, o.about(a.Keys))
	}
	a.known.applied(o, index)
	a.failures.applied(o, index)
	a.absences.applied(o)
	a.events.applied(o)
	if o.kind == orderSweep {
		delete(a.readAt, o.from)
	}
}
