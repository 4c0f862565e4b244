package protocol

import (
	"log/slog"
	"sync"

	"github.com/coordd/coordd/internal/store"
)

// mostStrange is how many strange keys a reader logs at the most, and remembers.
const mostStrange = 10_000

// StrangeKeys logs each key that a reader cannot use, once. Such a key is skipped and stops
// nothing. After 10,000 keys one line says that there are more, and no other is logged until the
// process starts again, also if those that were logged are deleted: it knows keys, and no views in
// which they could be missed. Safe for concurrent use.
type StrangeKeys struct {
	Log *slog.Logger

	mu   sync.Mutex
	told map[string]bool
	more bool // has been said
}

// Skip logs the key of e.
func (s *StrangeKeys) Skip(e store.Entry, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[e.Key] || s.more {
		return
	}
	if len(s.told) == mostStrange {
		s.more = true
		s.Log.Warn("more-strange-keys-skipped", "logged", mostStrange, "then",
			"no other strange key is logged until this process starts again", "do",
			"delete those that were logged, and start the process again")
		return
	}
	if s.told == nil {
		s.told = map[string]bool{}
	}
	s.told[e.Key] = true
	s.Log.Warn("strange-key-skipped", "key", store.Shorten(e.Key), "why", store.Shorten(why),
		"do", "delete it, or write it as docs/design.md says")
}
