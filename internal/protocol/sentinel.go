package protocol

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// Sentinel is the value of assignments/<m>/ that m writes when it registers: its session, a number
// that makes each of its values a new one, and once more the lease that its ack names. A reader
// that finds no ack needs it: another program may have deleted that, or written over it.
func Sentinel(session string, n uint64, lease time.Duration) []byte {
	return fmt.Appendf(nil, "%s %d %v", session, n, lease)
}

// sessionText is the form of a session's id.
var sessionText = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ReadSentinel returns the session of the registration that wrote a sentinel, and the lease that it
// names; the zero values where it says none that can be.
func ReadSentinel(value []byte) (session string, lease time.Duration) {
	words := strings.Fields(string(value))
	if len(words) > 0 && sessionText.MatchString(words[0]) {
		session = words[0]
	}
	return session, sentinelLease(words)
}

// sentinelLease is the lease that a sentinel of these words names; 0: none, as with those of
// versions before this one, or none that can be.
func sentinelLease(words []string) time.Duration {
	if len(words) != 3 {
		return 0
	}
	lease, err := time.ParseDuration(words[2])
	if err != nil || lease < MinLease || lease > store.MaxTTL {
		return 0
	}
	return lease
}
