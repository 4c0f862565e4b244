package routing

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// runPulse asks Consul for the indexes of members/ and acks/ every quarter of the table's greatest
// age. Its answers are what the table's age counts from; see the package's documentation for what
// they find out.
func (r *Router) runPulse(ctx context.Context) error {
	r.stopped.Store(false)
	defer func() {
		if ctx.Err() != nil { // nobody keeps the table from here on
			r.Close()
		}
	}()
	if _, err := r.wanted.Reader().Wait(ctx, func(on bool) bool { return on }); err != nil {
		return nil
	}
	failed := false
	late := map[string]uint64{} // whose share was behind its ack at the last pulse
	known := uint64(0)          // the table's index of acks/ before the pulse
	ask := func(ctx context.Context) (pulse, error) {
		known = r.table.ackIndex()
		return r.readIndexes(ctx)
	}
	pause := func(err error, wait time.Duration) time.Duration {
		failed = true
		if errors.Is(err, store.ErrDenied) {
			return r.maxAge / 4
		}
		return min(wait, r.maxAge/8)
	}
	for answer := range store.Repeat(ctx, r.store, "routing: pulse", pause, ask) {
		supervisor.Ready(ctx)
		// The polls may hang on connections that died with what failed: nothing that they have not
		// read anew is as of now, whatever the first of them to be answered says.
		state := behind
		if !failed {
			state = r.table.takePulse(answer, known)
		}
		switch {
		case state != current:
			if !failed {
				r.log.Warn("routing-read-anew", "why",
					map[pulseVerdict]string{behind: "a watch has missed what Consul knew",
						rewound: "Consul's index went back"}[state])
			}
			failed = false
			r.rereadAll(answer.sent)
		default:
			// What is late for the first time may be under way.
			again, now := map[string]uint64{}, r.table.lateShares()
			for id, ack := range now {
				if late[id] != 0 {
					again[id] = ack
				}
			}
			late = now
			r.late.Set(again)
		}
		store.Pause(ctx, r.maxAge/4)
	}
	return nil
}

// readIndexes is one pulse.
func (r *Router) readIndexes(ctx context.Context) (p pulse, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.maxAge/4)
	defer cancel()
	p.sent = time.Now()
	if _, p.members, err = r.store.ListKeys(ctx, r.keys.Members(), "/"); err != nil {
		return p, err
	}
	_, p.acks, err = r.store.ListKeys(ctx, r.keys.Acks(), "/")
	return p, err
}
