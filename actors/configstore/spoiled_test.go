package configstore_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// A proxy spoils each second index that the pulse is answered with, while the watch hangs: the cache
// is behind, and what is read is the store's own write all the same.
func TestASpoiledIndexConfirmsNoCacheThatLacksAnOwnWrite(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.prepare()
		var hangs atomic.Bool
		var pulses atomic.Int64
		to := s.net.To()
		s.net.Via(transport.Func(func(req *http.Request) (*http.Response, error) {
			if hangs.Load() && isRead(req) {
				return transport.Hang(req)
			}
			resp, err := to.RoundTrip(req)
			if err == nil && hangs.Load() && req.URL.Query().Has("keys") && pulses.Add(1)%2 == 1 {
				resp.Header.Set("X-Consul-Index", "0")
			}
			return resp, err
		}))
		s.run()
		s.ready()
		s.put("k", "before")
		r.await("the cache to show it", time.Minute, s.Fresh)
		hangs.Store(true)
		s.put("k", "after")
		for range 60 {
			r.expect("k", s.get("k"), "after")
			time.Sleep(100 * time.Millisecond)
		}
	})
}
