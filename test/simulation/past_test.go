package simulation_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// What a member is told from the past: by a server that lags behind, by one that has just begun to
// lead and replays its log, by one that does not know yet that it leads no more. Reads of the
// default mode are (a fate of requests, and all of them while an episode lets Consul replay its
// log), and renewals: those of sessions that have ended are answered with 200, those of sessions
// that were just made with 404.

// memory is how far in the past an answer may be.
const memory = 30 * time.Second

// anyPast are the rates at which renewals are answered from the past.
var anyPast = []float64{0.1, 0.3, 0.6, 1}

// lifetime is that of a session, as Consul has it.
type lifetime struct{ made, ended time.Time }

// lived takes in what becomes of sessions.
func (w *world) lived(verb, session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[session]
	switch verb {
	case "session-create":
		s.made = time.Now()
	case "session-destroy":
		s.ended = time.Now()
	default:
		return
	}
	w.sessions[session] = s
}

// oldRenewal answers a renewal as a server does to which the session's end, or its beginning, is
// news; nil: none does.
func (l *link) oldRenewal(r *request) *http.Response {
	id, ok := strings.CutPrefix(r.URL.Path, "/v1/session/renew/")
	if !ok || l.w.calm.Load() || l.w.plan.profile == "gentle" {
		return nil
	}
	rnd := rand.New(rand.NewPCG(l.w.plan.seed+1<<41, hash(l.p.name())+r.number)) // dice of its own
	if rnd.Float64() >= l.w.plan.settings.past {
		return nil
	}
	l.w.mu.Lock()
	s, known := l.w.sessions[id]
	l.w.mu.Unlock()
	switch {
	case known && !s.ended.IsZero() && time.Since(s.ended) < memory:
		l.answered(http.StatusOK)
		return canned(r, http.StatusOK, fmt.Sprintf(`[{"ID":%q,"TTL":"10s"}]`, id))
	case known && s.ended.IsZero() && time.Since(s.made) < memory && rnd.IntN(3) == 0:
		l.answered(http.StatusNotFound)
		return canned(r, http.StatusNotFound, fmt.Sprintf("Session id '%s' not found", id))
	}
	return nil
}

// answered notes what the last renewal of this process was told.
func (l *link) answered(code int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = code == http.StatusOK
}

// remember keeps the answers to reads, for servers that lag behind.
func (w *world) remember(r *request, resp *http.Response) {
	if _, ok := r.URL.Query()["consistent"]; ok {
		return
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := append(w.answers[r.URL.Path], kept{time.Now(), resp.Header.Clone(), body})
	w.answers[r.URL.Path] = kept[max(0, len(kept)-6):]
}

type kept struct {
	at     time.Time
	header http.Header
	body   []byte
}

// lagging answers r as a server would that lags behind; nil: none does.
// A consistent read is never answered so.
func (w *world) lagging(r *request) *http.Response {
	if _, ok := r.URL.Query()["consistent"]; ok || r.Method != http.MethodGet {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.answers[r.URL.Path] {
		if time.Since(k.at) < memory {
			resp := canned(r, 200, string(k.body))
			resp.Header = k.header.Clone()
			return resp
		}
	}
	return nil
}
