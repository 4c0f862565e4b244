package protocol

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordd/coordd/internal/store"
)

// Version is the major version of the protocol that this package speaks. A record without one is of
// version 1.
const Version = 1

// ErrProtocol is returned for the record of a member that speaks a later major version of the
// protocol: this version neither registers beside it nor plans for it.
var ErrProtocol = errors.New("a member speaks a later version of the protocol")

// checkVersion refuses the record of a later version.
func (r MemberRecord) checkVersion() error {
	if r.Protocol <= Version {
		return nil
	}
	return fmt.Errorf("%w: version %d, and this one knows %d: update coordd here", ErrProtocol,
		r.Protocol, Version)
}

// CheckVersions tells whether all registered members speak a version of the protocol that this one
// knows; [ErrProtocol] if not.
func (s *Store) CheckVersions(ctx context.Context) error {
	members, _, err := s.List(ctx, s.keys.Members(), store.Consistent)
	if err != nil {
		return err
	}
	for _, e := range members {
		if m, _, err := s.keys.ReadMember(e); errors.Is(err, ErrProtocol) {
			return fmt.Errorf("member %q: %w", m.ID, err)
		}
	}
	return nil
}
