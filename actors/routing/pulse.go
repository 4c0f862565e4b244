package routing

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// pulse asks Consul for the index of acks/ every quarter of the table's greatest age. Its answers are what the
// table's age counts from; see the package's documentation for what they find out.
func (r *Router) pulse(ctx context.Context) error {
	if _, err := r.wanted.Reader().Wait(ctx, func(on bool) bool { return on }); err != nil {
		return nil
	}
	r.stopped.Store(false)
	defer func() {
		if ctx.Err() != nil { // nobody keeps the table from here on
			r.stopped.Store(true)
			r.renew(time.Now())
			r.table.close()
		}
	}()
	const what = "routing: pulse"
	ladder := store.NewLadder()
	failed := false
	late := map[string]uint64{}  // whose share was behind its ack at the last pulse
	asked := map[string]uint64{} // for which ack the share was read again
	for {
		sent, known := time.Now(), r.table.ackIndex()
		call, cancel := context.WithTimeout(ctx, r.maxAge/4)
		index, err := r.store.PrefixIndex(call, r.keys.Acks())
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			failed = true
			pause := min(ladder.NextBackOff(), r.maxAge/8)
			if errors.Is(err, store.ErrDenied) {
				pause = r.maxAge / 4
			}
			r.store.Failed(what, err, pause)
			if !rest(ctx, pause) {
				return nil
			}
			continue
		}
		ladder.Reset()
		r.store.Succeeded(what)
		supervisor.Ready(ctx)
		state := r.table.beat(sent, index, known)
		switch {
		case failed, state == rewound, state == behind:
			// The polls may hang on connections that died with what failed, or wait for an index that does not come.
			if state != current {
				r.log.Warn("routing-read-anew", "why", map[trusted]string{behind: "a watch has missed what Consul knew", rewound: "Consul's index went back"}[state])
			}
			failed = false
			r.renew(sent)
		default:
			again := map[string]uint64{}
			now := r.table.laggards()
			for id, ack := range now {
				if late[id] != 0 && asked[id] != ack {
					again[id], asked[id] = ack, ack
				}
			}
			late = now
			maps.DeleteFunc(asked, func(id string, _ uint64) bool { return now[id] == 0 })
			if len(again) > 0 {
				r.suspects.Set(again)
			}
		}
		if !rest(ctx, r.maxAge/4) {
			return nil
		}
	}
}
