package configstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// The marker was gone before anything of the write was applied. That the making of another one is
// not answered changes nothing about that.
func TestAWriteThatWasRefusedForAMarkerThatIsGoneIsAppliedHoweverTheNextMarkerIsMade(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("other", "1")
		for i, way := range []transport.Func{s.net.Lose, unanswered, denied} {
			key := fmt.Sprint("k", i)
			r.strangerDeletes("config_log/m1")
			s.net.Next(2, way) // after the write itself, which is refused
			s.net.Next(3, s.net.Lose)
			if _, err := s.Put(r.ctx(time.Minute), key, []byte("1")); err != nil {
				t.Errorf("%s: it was never applied, and the caller hears: %v", key, err)
			}
			r.expect("writes of "+key, r.times(key+"=1"), 1)
		}
	})
}

// The first copy of its request is refused, since the cache has not seen the key yet. The second
// one arrives before the write is tried again over that key.
func TestAPutIsNotDoneTwiceWhenACopyOfItsRefusedTryArrivesAndTheMarkerGoes(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("other", "1")
		for key, then := range map[string]func(){
			"deleted": func() {},
			"made":    func() { r.stranger("config_data/made", "theirs again") },
		} {
			var first *http.Request
			s.net.Next(1, func(req *http.Request) (*http.Response, error) {
				r.stranger("config_data/"+key, "theirs")
				first = transport.Copy(req)
				return s.net.To().RoundTrip(req)
			})
			s.net.Next(3, func(req *http.Request) (*http.Response, error) { // after a look at the key
				r.strangerDeletes("config_data/" + key)
				transport.Again(s.net.To(), first)
				r.strangerDeletes("config_data/" + key)
				then()
				r.strangerDeletes("config_log/m1")
				return s.net.To().RoundTrip(req)
			})
			_, err := s.Put(r.ctx(time.Minute), key, []byte("1"))
			r.isUnknown(err)
			r.expect("writes of "+key, r.times(key+"=1"), 1)
			s.put(key, "2")
		}
	})
}

// A marker that nobody has claimed yet tells as little as none: its maker was killed just then.
func TestALoggedWriteIsNotDoneTwiceWhenWhoMadeTheMarkerAnewWasKilled(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("other", "0")
		s.cutOffAfter()
		s.logs("k", "1")
		s.kill()
		r.strangerDeletesAll("config_log/")
		r.strangerDeletes("config_data/k")

		killed := r.prepare(logged(dir))
		killed.net.Via(transport.When(r.consul.RoundTripper(), transport.TxnWith("config_log"),
			func(req *http.Request) (*http.Response, error) {
				defer killed.net.Cut(errors.New("killed"))
				return r.consul.RoundTripper().RoundTrip(req)
			}))
		killed.run()
		r.await("a marker", time.Minute, func() bool { return r.markers() != "" })
		killed.kill()

		next := r.start(logged(dir)).ready()
		r.await("nothing waits", time.Minute, func() bool {
			q := next.Queue().Get()
			return q.Ready && q.Waiting == 0
		})
		r.expect("writes", r.times("k=1"), 1)
		r.expect("refused", next.Queue().Get().Refused, 1)
		if _, err := next.Put(t.Context(), "k", []byte("2")); err != nil {
			t.Error(err)
		}
	})
}
