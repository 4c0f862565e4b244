package onconsul_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/hashicorp/consul/api"
)

// slow is a way to a Consul that takes its time for each answer. A long poll takes none on top of its wait.
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
		client, err := api.NewClient(&api.Config{Address: "consul.test", HttpClient: &http.Client{Transport: way}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := onconsul.Connect(onconsul.Config{Client: client, Logger: s.log})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		e, err := election.New(c, election.Config{Election: "demo", Name: "a", Logger: s.log})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Nominate(t.Context()); err != nil {
			t.Fatal(err)
		}
		leads := func(s election.Status) bool { return s.Role == election.Leading }
		if _, err := e.State().Wait(t.Context(), leads); err != nil {
			t.Fatal(err)
		}
		way.takes.Store(int64(2 * time.Second))
		for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(20 * time.Millisecond) {
			if got := c.Contact().Get(); !got.Lease.Valid(time.Now(), time.Second) || !leads(e.Status()) {
				t.Errorf("after %v: %v, and the lease has %v left", time.Since(begin), e.Status(), got.Lease.Left(time.Now()))
				break
			}
		}
		way.takes.Store(0)
		e.Resign()
		<-e.Done()
	})
}
