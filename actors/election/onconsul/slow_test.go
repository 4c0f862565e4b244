package onconsul_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestAConsulThatIsSlowWithEachAnswerCostsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var takes atomic.Int64
		c := s.over(transport.Slow(s.consul.RoundTripper(), func() time.Duration {
			return time.Duration(takes.Load())
		}))
		defer c.Close()
		e := nominated(t, c, election.Config{Election: "demo", Name: "a", Logger: s.log})
		leads := func(s election.Status) bool { return s.Role == election.Leading }
		if _, err := e.State().Wait(t.Context(), leads); err != nil {
			t.Fatal(err)
		}
		takes.Store(int64(2 * time.Second))
		for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(
			20 * time.Millisecond) {
			if got := c.Contact().Get(); !got.Lease.Valid(time.Now(), time.Second) ||
				!leads(e.State().Get()) {
				t.Errorf("after %v: %v, and the lease has %v left", time.Since(begin),
					e.State().Get(),
					got.Lease.Left(time.Now()))
				break
			}
		}
		takes.Store(0)
		e.Resign()
		<-e.Done()
	})
}
