package configstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// A Consul that is made anew from a snapshot counts on from there. A cache that has seen more than
// that takes what is written then for what it has seen long ago; and what its store has written
// last may be in the snapshot, so that nothing of its own tells.
func TestReadYourWritesHoldsWhenConsulForgotOnlyWhatOthersWrote(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				s := r.start().ready()
				s.put("k", "before")
				snapshot := r.consul.Snapshot()
				for i := range 30 {
					r.stranger("config_data/other", fmt.Sprint(i))
				}
				s.net.Via(slowPolls(r.consul.RoundTripper()))
				time.Sleep(2 * time.Minute) // the poll of before has ended
				r.consul.Reset()
				must(t, r.consul.Restore(snapshot))
				if lost {
					s.net.Next(1, transport.Lose(s.net.To()))
				}
				s.put("k", "mine")
				r.expect("k", s.get("k"), "mine")
				list, err := s.List(r.ctx(time.Minute), "k")
				must(t, err)
				r.expect("the list's k", string(list[0].Value), "mine")
				time.Sleep(time.Minute)
				r.expect("the cache is believed again", s.Fresh(), true)
				r.expect("k later", s.get("k"), "mine")
			})
		})
	}
}
