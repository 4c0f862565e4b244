package protocol

import (
	"log/slog"
	"sync"

	"github.com/coordd/coordd/internal/store"
)

// mostUnreadable is how many unreadable keys a reader logs at the most, and remembers.
const mostUnreadable = 10_000

// UnreadableKeys logs each key that a reader cannot use, once. Such a key is skipped and stops
// nothing. After 10,000 keys one line says that there are more, and no other is logged until the
// process starts again, also if those that were logged are deleted: it knows keys, and no views in
// which they could be missed. Safe for concurrent use.
type UnreadableKeys struct {
	Log *slog.Logger

	mu   sync.Mutex
	told map[string]bool
	more bool // has been said
}

// Skip logs the key of e.
func (s *UnreadableKeys) Skip(e store.Entry, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[e.Key] || s.more {
		return
	}
	if len(s.told) == mostUnreadable {
		s.more = true
		s.Log.Warn("more-unreadable-keys-skipped", "logged", mostUnreadable, "then",
			"no other unreadable key is logged until this process starts again", "do",
			"delete those that were logged, and start the process again")
		return
	}
	if s.told == nil {
		s.told = map[string]bool{}
	}
	s.told[e.Key] = true
	s.Log.Warn("unreadable-key-skipped", "key", store.Shorten(e.Key), "why", store.Shorten(why),
		"do", "delete it, or write it as docs/design.md says")
}
