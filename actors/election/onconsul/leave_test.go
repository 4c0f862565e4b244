package onconsul_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// overtaken is a way to Consul on which the first take breaks off, and arrives after all when its
// candidate has looked for what it has to remove.
type overtaken struct {
	next   http.RoundTripper
	broken func() // called when it does

	mu      sync.Mutex
	kept    []byte
	arrived bool
}

func (w *overtaken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || r.URL.Path != "/v1/txn" {
		return w.next.RoundTrip(r)
	}
	body, err := peek(r)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(body)
	switch {
	case w.kept == nil && strings.Contains(text, `state/leader"`) &&
		strings.Contains(text, `"lock"`):
		w.kept = body
		w.broken()
		return nil, syscall.ECONNRESET
	case w.kept != nil && !w.arrived && !strings.Contains(text, `"delete"`):
		resp, err := w.next.RoundTrip(r)
		w.arrived = true
		late := r.Clone(r.Context())
		late.ContentLength = int64(len(w.kept))
		late.Body = io.NopCloser(bytes.NewReader(w.kept))
		if took, err := w.next.RoundTrip(late); err == nil {
			w.arrived = took.StatusCode == http.StatusOK
			took.Body.Close()
		}
		return resp, err
	}
	return w.next.RoundTrip(r)
}

// A candidate has left, and its connection lives on. If its last take had won while it left, its
// session would hold a leadership that nobody leads by.
func TestATakeThatArrivesWhileItsCandidateLeavesIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		way := &overtaken{next: s.consul.RoundTripper()}
		one, two := s.over(way), s.over(s.consul.RoundTripper())
		defer one.Close()
		defer two.Close()
		var a *election.Election
		ready := make(chan struct{})
		way.broken = func() { <-ready; a.Resign() }
		a = nominated(t, one, election.Config{Election: contested, Name: "a", Lead: untilTold,
			Logger: s.log})
		close(ready)
		<-a.Done()
		if !way.arrived {
			t.Fatal("the late take was not carried out: this shows nothing")
		}
		b := nominated(t, two, election.Config{Election: contested, Name: "b", Lead: untilTold,
			Logger: s.log})
		time.Sleep(time.Minute)
		if s := b.State().Get(); s.Role != election.Leading {
			t.Errorf("a has left, and a minute later b is told %v, of the leader %v", s, s.Leader)
		}
		b.Resign()
		<-b.Done()
	})
}
