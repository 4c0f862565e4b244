//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// farewell is what the guard process is told to do in Consul should this process die: the same as a
// clean stop would have done. Consul is found as this process finds it, by the flag in here and the
// variables that the guard process has as well; so no token goes over the pipe, or into a command
// line.
type farewell struct {
	Service, Consul     string
	LogFormat, LogLevel string
	Leaving             store.Leaving
	// Candidacy is that of coordd elect, which has no member; nil for a member.
	Candidacy *deadCandidacy `json:",omitempty"`
}

// words are nil while there is nothing to take back.
func (f farewell) words(m messages.Membership) []byte {
	if !m.In(m.Session) {
		return nil
	}
	f.Leaving.Session, f.Leaving.Clear = m.Session, m.ClearAt.IsZero()
	b, err := json.Marshal(f)
	if err != nil {
		return nil // strings and a bool: it cannot be
	}
	return b
}

// sayFarewell is the guard process's part. It returns true when nothing is left in Consul that
// names the guard's lock.
func sayFarewell(ctx context.Context, words []byte) (forgotten bool) {
	late := asynclog.NewWriter(os.Stderr) // the guard's end is what a successor waits for
	defer late.Flush(flushLimit / 2)
	var f farewell
	if json.Unmarshal(words, &f) != nil {
		return false
	}
	log, err := (&logFlags{format: f.LogFormat, level: f.LogLevel}).logger(late)
	if err != nil {
		return false
	}
	if f.Candidacy != nil {
		f.Candidacy.resign(ctx, f.Consul, log)
		return true
	}
	log = log.With("service", f.Service, "member", f.Leaving.Member, "session", f.Leaving.Session)
	client, address, err := (&serviceFlags{service: f.Service, consul: f.Consul}).client(ctx)
	if err != nil {
		log.Error("no-goodbye-for-killed-coordd", "err", err)
		return false
	}
	s, err := store.New(store.Config{Client: client, Service: f.Service, Address: address,
		Logger: log})
	if err != nil {
		log.Error("no-goodbye-for-killed-coordd", "err", err)
		return false
	}
	begin := time.Now()
	accepted, err := s.Depart(ctx, f.Leaving)
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		log.Info("killed-coordd-has-a-successor", "then", "it takes over what is left")
	case err != nil:
		log.Warn("no-goodbye-for-killed-coordd", "err", err, "then",
			"its items move when its session is over and the grace has passed")
	case !accepted:
		log.Info("killed-coordd-had-lost-its-record", "then", "nothing was taken back")
	default:
		log.Info("said-goodbye-for-killed-coordd", "items_released", f.Leaving.Clear, "took",
			time.Since(begin).Round(time.Millisecond).String())
		return f.Leaving.Clear // else its ack stays
	}
	return false
}
