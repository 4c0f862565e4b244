package configstore

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Names of writers that have none of their own: a kind, a slash and a random number. No id holds a
// slash, and no name of a log does. So a marker of such a name is needed by the process that made
// it, and by no other.
const (
	commandKind  = "command"  // it writes and ends
	namelessKind = "nameless" // any other
)

// CommandOwner returns a name for a command that writes and ends. If it is killed, others delete
// its marker.
func CommandOwner() string { return commandKind + "/" + newInstance() }

// nameless tells whether a writer has no name of its own, and of which kind it is.
func nameless(writer string) (kind string, ok bool) {
	kind, number, _ := strings.Cut(writer, "/")
	random, err := hex.DecodeString(number)
	return kind, (kind == commandKind || kind == namelessKind) && err == nil &&
		len(random) == instanceBytes
}

// logName returns a name for a log, which no other log has.
func logName(owner string) string {
	if kind, ok := nameless(owner); ok {
		owner = kind
	}
	return owner + "-" + newInstance()
}

// The ages count from the last write of a marker's holder, by the clocks of two hosts. They are
// longer than a command runs, than a host without a name usually pauses between two writes, and
// than it takes to begin to write.
const (
	commandLifetime  = 24 * time.Hour
	namelessLifetime = 30 * 24 * time.Hour
	startupTime      = time.Minute
)

// sweep deletes markers that nobody needs, once in a process: those of writers without a name that
// were killed on this host, those of writers without a name that wrote last long ago, and those
// that a late request has made. If Consul does not answer, the next claim has it tried again.
// Markers that commits before this form named, once-NUMBER and anon-NUMBER, stay: a member or a log
// may have such a name.
//
// A holder may be suspended for longer than any age, and go on. It then makes its marker anew: see
// [consulWriter.rereadMarker]. A write of its whose answer was lost is not repeated if it makes a
// key. Its caller is told that nobody knows whether it was applied: see [consulWriter.execute].
func (a *consulWriter) sweep(ctx context.Context) {
	if a.marker.swept {
		return
	}
	entries, _, err := a.store.List(ctx, a.keys.ConfigMarker(""), store.Default)
	if err != nil {
		a.log.Debug("config-markers-not-swept", "err", err)
		return
	}
	denied := map[string]bool{} // rules are for prefixes: one answer is good for all of a kind
	for _, e := range entries {
		writer := strings.TrimPrefix(e.Key, a.keys.ConfigMarker(""))
		kind, ok := nameless(writer)
		if !ok {
			kind = writer
		}
		m, err := protocol.ParseMarker(e.Value)
		if err != nil || e.Key == a.markerKey() || denied[kind] || !a.unneeded(writer, m) {
			continue
		}
		_, err = a.store.Txn(ctx, store.DeleteCAS(e.Key, e.ModifyIndex))
		switch {
		case err == nil:
			a.log.Info("config-marker-swept", "key", e.Key, "by_host", m.By.Host, "by_pid",
				m.By.PID)
			continue
		case errors.Is(err, store.ErrRefused): // it was written or swept since
		case permanent(err):
			denied[kind] = true
		default:
			a.log.Debug("config-markers-not-swept", "err", err)
			return
		}
		a.log.Debug("config-marker-not-swept", "key", e.Key, "err", err)
	}
	a.marker.swept = true
}

// unneeded tells whether nobody needs a marker any more. The marker of a writer with a name is
// needed by its next process or its log.
func (a *consulWriter) unneeded(writer string, m protocol.Marker) bool {
	age := time.Since(time.Unix(m.Since, 0))
	if (m == protocol.Marker{Since: m.Since}) {
		return age > startupTime
	}
	kind, ok := nameless(writer)
	if !ok {
		return false
	}
	switch a.liveness(m.By) {
	case protocol.Dead:
		return true
	case protocol.Alive:
		return false
	}
	limit := namelessLifetime
	if kind == commandKind {
		limit = commandLifetime
	}
	return m.Since != 0 && age > limit
}
