package configstore

import (
	"context"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// The prefixes of names that are given to writers without one: to commands and to all others.
const (
	commandPrefix = "once-"
	namelessOwner = "anon-"
)

// CommandOwner returns a name for a command that writes and ends. If it is killed, others delete
// its marker.
func CommandOwner() string { return commandPrefix + newInstance() }

// The ages are compared by the clocks of two hosts. They are longer than a command runs, and than
// it takes to begin to write.
const (
	commandLifetime = 24 * time.Hour
	startupTime     = time.Minute
)

// sweep deletes markers that nobody needs, once in a process: those of writers without a name of
// their own that were killed on this host, those of commands of a day ago, and those that a late
// request has made. A live writer whose marker is deleted goes on: see [consulWriter.rereadMarker].
func (a *consulWriter) sweep(ctx context.Context) {
	if a.marker.swept {
		return
	}
	entries, _, err := a.store.List(ctx, a.keys.ConfigMarker(""), store.Default)
	if err != nil {
		a.log.Debug("config-markers-not-swept", "err", err)
		return
	}
	a.marker.swept = true
	for _, e := range entries {
		m, err := protocol.ParseMarker(e.Value)
		if err != nil || e.Key == a.markerKey() ||
			!a.unneeded(strings.TrimPrefix(e.Key, a.keys.ConfigMarker("")), m) {
			continue
		}
		if _, err := a.store.Txn(ctx, store.DeleteCAS(e.Key, e.ModifyIndex)); err != nil {
			a.log.Debug("config-markers-not-swept", "err", err)
			return
		}
		a.log.Info("config-marker-swept", "key", e.Key, "by_host", m.By.Host, "by_pid", m.By.PID)
	}
}

// unneeded tells whether nobody needs a marker any more. The marker of a writer with a name is
// needed by its next process or its log.
func (a *consulWriter) unneeded(writer string, m protocol.Marker) bool {
	command, age := strings.HasPrefix(writer, commandPrefix), time.Since(time.Unix(m.Since, 0))
	switch {
	case m == protocol.Marker{Since: m.Since}:
		return age > startupTime
	case !command && !strings.HasPrefix(writer, namelessOwner):
		return false
	case strings.Count(writer, "-") > 1: // of a log
		return false
	}
	switch a.Liveness(m.By) {
	case protocol.Dead:
		return true
	case protocol.Alive:
		return false
	}
	return command && m.Since != 0 && age > commandLifetime
}
