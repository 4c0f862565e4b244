package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/facts"
)

// goodbye is what the guard process says in Consul if this process dies: the same as a clean stop
// would say. The guard process finds Consul as this process does, by the flag in here and by the
// variables of its environment. So no token goes over the pipe or into a command line.
type goodbye struct {
	Service             string
	consulFlags         // of a candidacy without servers of ZooKeeper, too
	LogFormat, LogLevel string
	Leaving             leavingMember
	// Candidacy is that of coordd elect, which has no member; nil for a member.
	Candidacy *deadCandidacy `json:",omitempty"`
}

// leavingMember is the member that a goodbye is for.
type leavingMember struct {
	Member, Session string
	Clear           bool // see [actors.Depart]
}

// words encodes the goodbye for the session of m. It returns nil while that session holds no
// record.
func (g goodbye) words(m facts.Membership) []byte {
	if !m.In(m.Session) {
		return nil
	}
	g.Leaving.Session, g.Leaving.Clear = m.Session, m.ClearAt.IsZero()
	b, err := json.Marshal(g)
	if err != nil {
		return nil // strings and a bool: it cannot be
	}
	return b
}

// sayGoodbye runs in the guard process.
func sayGoodbye(ctx context.Context, words []byte) {
	late := asynclog.NewWriter(os.Stderr) // the guard's end is what a successor waits for
	defer late.Flush(flushLimit / 2)
	var g goodbye
	if json.Unmarshal(words, &g) != nil {
		return
	}
	log, err := (&logFlags{format: g.LogFormat, level: g.LogLevel}).logger(late)
	if err != nil {
		return
	}
	if g.Candidacy != nil {
		g.Candidacy.resign(ctx, g.consulFlags, log)
		return
	}
	l := g.Leaving
	log = log.With("service", g.Service, "member", l.Member, "session", l.Session)
	begin, accepted := time.Now(), false
	client, address, err := g.client()
	if err == nil {
		accepted, err = actors.Depart(ctx, actors.Config{Host: actors.Host{Consul: address},
			Service: g.Service, ID: l.Member,
			Client: client, Logger: log}, l.Session, l.Clear)
	}
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		log.Info("killed-coordd-has-a-successor", "then", "it takes over what is left")
	case err != nil:
		log.Warn("no-goodbye-for-killed-coordd", "err", err, "then",
			"its items move when its session is over and the grace has passed")
	default:
		log.Info("said-goodbye-for-killed-coordd", "accepted", accepted, "items_released", l.Clear,
			"took", time.Since(begin).Round(time.Millisecond).String())
	}
}
