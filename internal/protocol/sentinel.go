package protocol

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/store"
)

// Sentinel is the value of assignments/<m>/ that m writes when it registers: its session, a number
// that makes each of its values a new one, and once more the lease that its ack names, for whoever
// finds no ack that does. A stranger may have deleted that, or written over it.
func Sentinel(session string, n uint64, lease time.Duration) []byte {
	return fmt.Appendf(nil, "%s %d %v", session, n, lease)
}

// sentinelLease is the lease that a sentinel names; 0: none, as with those of versions before this
// one, or none that can be.
func sentinelLease(value []byte) time.Duration {
	words := bytes.Fields(value)
	if len(words) != 3 || mutations.Broken("sentinel-without-lease") {
		return 0
	}
	lease, err := time.ParseDuration(string(words[2]))
	if err != nil || lease < MinLease || lease > store.MaxTTL {
		return 0
	}
	return lease
}

// SentinelLease reads, consistently, the lease that the sentinel of a member names; 0: none.
func (s *Store) SentinelLease(ctx context.Context, member string) (time.Duration, error) {
	e, _, _, err := s.Get(ctx, s.keys.AssignmentsOf(member), store.Consistent)
	return sentinelLease(e.Value), err
}
