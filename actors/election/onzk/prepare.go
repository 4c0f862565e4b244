package onzk

import (
	"github.com/coordd/coordd/actors/election/internal/contained"
)

// preparation is what a take needs, read beside the place in the queue: the next leader asks for
// both together when the last one has gone, and then writes. It is only for after a leader that has
// given the leadership up. The take has the versions for conditions: so nobody has led since, and
// there is no lock-delay. All else a take reads for itself.
type preparation struct {
	incarnation int64 // creation zxid of the election's node
	root, term  int32 // versions of the election's node and of the term
	yields      bool  // there was an order to hand over
}

// prepares reads what a take needs if one may be near: the leader is gone, or the candidate before
// this one. The channel gives nil if it is not, and if the last leader has not released.
func (w *watcher) prepares(leader reading) <-chan *preparation {
	ready := make(chan *preparation, 1)
	root, before := w.root.now, w.predecessor.now
	if leader.exists && (before.number == 0 || before.exists) {
		ready <- nil
		return ready
	}
	p := &preparation{incarnation: root.stat.Czxid, root: root.stat.Version}
	contained.Go(w.b.conn.log, "the term", func() error {
		holder, term, err := w.b.conn.zk.Get(w.b.path(termNode))
		if err != nil || len(holder) > 0 || term.NumChildren > 0 {
			p = nil
			return nil
		}
		p.term = term.Version
		return nil
	}, func(err error) {
		if err != nil { // it has panicked
			p = nil
		}
		ready <- p
	})
	return ready
}

// prepare keeps p for the next take, and returns what was kept before.
func (b *backend) prepare(p *preparation) (before *preparation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.prepared = b.prepared, p
	return before
}
