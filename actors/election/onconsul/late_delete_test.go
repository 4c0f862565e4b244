package onconsul_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// An operator's machine sleeps while its Delete waits for the leader. Another Delete is quicker,
// and there is another election of that name by the time the machine wakes up.
func TestADeleteThatSleptLeavesTheNextElectionAlone(t *testing.T) {
	for name, ended := range map[string]bool{"which was ended": true, "which is led": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var reads atomic.Int32 // of the late one
				held, free := make(chan struct{}), make(chan struct{})
				late := s.over(transport.Func(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/state/") &&
						reads.Add(1) == 2 { // when the order is written
						close(held)
						<-free
					}
					return s.consul.RoundTripper().RoundTrip(r)
				}))
				defer late.Close()
				quick := s.over(s.consul.RoundTripper())
				defer quick.Close()
				operator := func(over election.Connection) *election.Election {
					e, err := election.New(over, election.Config{Election: contested, Logger: s.log})
					must(t, err)
					return e
				}
				first := s.joins(quick, "first", 0)
				over := make(chan error, 1)
				go func() { over <- operator(late).Delete(t.Context()) }()
				<-held
				<-first.Done()
				must(t, operator(quick).Delete(t.Context()))
				next := s.joins(quick, "next", 0)
				if ended {
					must(t, operator(quick).End(t.Context()))
					<-next.Done()
				}
				close(free)
				select {
				case err := <-over:
					must(t, err)
				case <-time.After(time.Minute):
					t.Error("a minute later the Delete waits still, for the next election's leader")
				}
				if now := next.State().Get(); !ended && now.Role != election.Leading {
					t.Errorf("the next election's leader: %v", now)
				}
				if is := next.State().Get().Ended; is != ended {
					t.Errorf("the next election has ended: %v; want %v", is, ended)
				}
				next.Resign()
				<-next.Done()
			})
		})
	}
}
