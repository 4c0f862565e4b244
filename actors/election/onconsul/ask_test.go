package onconsul_test

import (
	"bytes"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
)

// unheard is a way to Consul on which no order to hand over is ever answered.
type unheard struct {
	next  http.RoundTripper
	asked chan struct{} // closed with the first one
}

func (u *unheard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || r.URL.Path != "/v1/txn" {
		return u.next.RoundTrip(r)
	}
	body, err := peek(r)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte(`state/handover"`)) && bytes.Contains(body, []byte(`"cas"`)) &&
		!bytes.Contains(body, []byte(`"lock"`)) {
		select {
		case <-u.asked:
		default:
			close(u.asked)
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return u.next.RoundTrip(r)
}

// A candidate that asks the leader to make way, and is not answered, asks again until it is; it can
// resign all the same.
func TestACandidateResignsAlsoWhileItAsksForTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		way := &unheard{next: s.consul.RoundTripper(), asked: make(chan struct{})}
		nominate := func(name string, priority int, next http.RoundTripper) (*election.Election,
			*onconsul.Conn) {
			conn := s.over(&wire{next: next, server: s})
			e := nominated(t, conn, election.Config{Election: "demo", Name: name,
				Priority: priority, Preempt: true, Logger: s.log,
				Lead: untilTold})
			time.Sleep(time.Second)
			return e, conn
		}
		b, two := nominate("b", 0, s.consul.RoundTripper())
		a, one := nominate("a", 5, way)
		<-way.asked
		a.Resign()
		select {
		case <-a.Done():
		case <-time.After(10 * time.Second):
			t.Errorf("10s after it resigned a says: %v", a.State().Get())
			one.Close()
			<-a.Done()
		}
		b.Resign()
		<-b.Done()
		one.Close()
		two.Close()
	})
}
