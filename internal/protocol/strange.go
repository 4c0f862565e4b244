package protocol

import (
	"log/slog"
	"sync"

	"github.com/coordd/coordd/internal/store"
)

// StrangeKeys logs each key that a reader cannot use, once. Such a key is skipped and stops
// nothing. Safe for concurrent use.
type StrangeKeys struct {
	Log *slog.Logger

	mu   sync.Mutex
	told map[string]bool
}

// Skip logs the key of e.
func (s *StrangeKeys) Skip(e store.Entry, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil || len(s.told) > 10_000 {
		s.told = map[string]bool{}
	}
	if s.told[e.Key] {
		return
	}
	s.told[e.Key] = true
	s.Log.Warn("strange-key-skipped", "key", store.Shorten(e.Key), "why", store.Shorten(why),
		"do", "delete it, or write it as docs/design.md says")
}
