package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// fitness is what this member knows of its rights in Consul.
type fitness struct {
	known bool
	since time.Time // when rights were first found to be missing
}

// unfitFor is how long a member tries again whose token lacks rights: a new token takes a moment to
// reach all of Consul's servers.
const unfitFor = 30 * time.Second

// check asks, before the first registration, whether the token has the rights that a member needs,
// and whether all members speak a protocol that this one knows.
func (f *fitness) check(ctx context.Context, b *actor.Base) error {
	if f.known {
		return nil
	}
	if err := b.Store.Fitness(ctx, b.ID); err != nil {
		return f.lacks(err)
	}
	err := b.Store.CheckVersions(ctx)
	if errors.Is(err, protocol.ErrProtocol) {
		return supervisor.Escalate(err)
	}
	f.known = err == nil
	return err
}

// lacks returns err, and ends the member where rights have been missing for too long.
func (f *fitness) lacks(err error) error {
	if !errors.Is(err, store.ErrDenied) {
		return err
	}
	if f.since.IsZero() {
		f.since = time.Now()
	}
	if time.Since(f.since) >= unfitFor {
		return supervisor.Escalate(fmt.Errorf("%w: %v", ErrUnfit, err))
	}
	return err
}

// ErrUnfit ends a member whose token is not known to Consul, or lacks rights that a member needs.
var ErrUnfit = errors.New("no member can be run with this token (docs/acl.md)")
