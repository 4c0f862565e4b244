package onconsul_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// slow is a way to a Consul that takes its time for each answer. A long poll takes none on top of
// its wait.
type slow struct {
	http.RoundTripper
	takes atomic.Int64
}

func (w *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if d := time.Duration(w.takes.Load()); d > 0 && !r.URL.Query().Has("index") {
		wait := time.NewTimer(d)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return w.RoundTripper.RoundTrip(r)
}

func TestAConsulThatIsSlowWithEachAnswerCostsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		way := &slow{RoundTripper: s.consul.RoundTripper()}
		c := s.over(way)
		defer c.Close()
		e := nominated(t, c, election.Config{Election: "demo", Name: "a", Logger: s.log})
		leads := func(s election.Status) bool { return s.Role == election.Leading }
		if _, err := e.State().Wait(t.Context(), leads); err != nil {
			t.Fatal(err)
		}
		way.takes.Store(int64(2 * time.Second))
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
		way.takes.Store(0)
		e.Resign()
		<-e.Done()
	})
}
