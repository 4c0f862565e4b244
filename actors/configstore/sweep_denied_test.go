package configstore_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// stale leaves markers of writers of a kind that were killed long ago.
func (r *rig) stale(kind string, n int) {
	r.t.Helper()
	for i := range n {
		r.stranger(fmt.Sprintf("config_log/%s/%016d", kind, i),
			`{"n":1,"claim":1,"by":{"instance":"gone"},"t":1}`)
	}
}

// sweeping has the requests that delete a stale marker go another way.
func (h *host) sweeping(kind string, way transport.Func) *host {
	h.net.Via(transport.When(h.net.To(), transport.TxnWith("delete-cas", "config_log/"+kind+"/"),
		way))
	return h
}

// Others that sweep may have got ahead, or its holder may write after all.
func TestAMarkerThatHasChangedSinceKeepsNoOthersFromBeingSwept(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.stale("command", 3)
		s, once := r.prepare(), false
		s.sweeping("command", func(req *http.Request) (*http.Response, error) {
			if !once {
				once = true
				r.stranger(fmt.Sprintf("config_log/command/%016d", 0),
					`{"n":2,"claim":1,"by":{"instance":"gone"},"t":1}`)
			}
			return r.consul.RoundTripper().RoundTrip(req)
		})
		s.run()
		s.ready().put("k", "1")
		r.expect("markers", r.markers(), "command/0000000000000000 m1")
	})
}

// A token's rules are for prefixes. So it is asked once for each kind, however many there are.
func TestADenialOfOneKindOfMarkersKeepsNoOthersFromBeingSwept(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		const many = 20
		r.stale("command", many)
		r.stale("nameless", many)
		r.stranger("config_log/late", `{"n":0,"claim":0,"by":{},"t":1}`)
		asked := 0
		s := r.prepare().sweeping("command", func(req *http.Request) (*http.Response, error) {
			asked++
			return denied(req)
		})
		s.run()
		s.ready().put("k", "1")
		r.expect("requests that were denied", asked, 1)
		left := strings.Fields(r.markers())
		r.expect("markers: those that may not be deleted, and its own", len(left), many+1)
		r.expect("its own", left[many], "m1")
	})
}

// The next claim of the marker has them swept.
func TestMarkersAreSweptAtTheNextClaimIfConsulWentAwayMeanwhile(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		one := func(c *configstore.Config) { c.Owner = "one" }
		r.stale("command", 3)
		asked := 0
		silent := func(req *http.Request) (*http.Response, error) {
			asked++
			return unanswered(req)
		}
		a := r.prepare(one).sweeping("command", silent)
		a.run()
		a.ready().put("k", "1")
		r.expect("requests without an answer", asked, 1)
		b := r.prepare(one, elsewhere).sweeping("command", silent)
		b.run()
		b.ready().put("k", "2")
		if _, err := a.Put(r.ctx(time.Second), "k", nil); err == nil {
			t.Error("the one that was taken over writes")
		}
		r.expect("markers", len(strings.Fields(r.markers())), 4)
		a.net.Via(r.consul.RoundTripper())
		b.stop()
		r.await("the markers of others are gone", time.Minute, func() bool {
			return r.markers() == "one"
		})
		a.put("k", "3")
	})
}
