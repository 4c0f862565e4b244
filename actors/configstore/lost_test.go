package configstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

// settled waits until nothing waits to be written.
func (h *host) settled() {
	h.rig.t.Helper()
	h.rig.await("nothing waits", time.Minute, func() bool {
		q := h.Queue().Get()
		return q.Ready && q.Waiting == 0
	})
}

// killedOnce kills a process when one of its transactions has had an effect.
func (h *host) killedOnce(happened func() bool) {
	to := h.net.To()
	for i := range 9 {
		h.net.Next(i+1, func(req *http.Request) (*http.Response, error) {
			resp, err := to.RoundTrip(req)
			if happened() {
				h.net.Cut(errors.New("killed"))
				return nil, errors.New("killed")
			}
			return resp, err
		})
	}
}

// claimed tells whether a process has the marker, of which there is one.
func (r *rig) claimed(by *host) bool {
	return strings.Contains(r.raw("config_log/"+r.markers()), `"`+by.process.Instance+`"`)
}

// A write was applied, and others have deleted the marker and what it wrote. The process that finds
// that out ends, and the next one knows it too.
func TestThatAMarkerWasLostIsKnownToEveryNextProcess(t *testing.T) {
	for what, end := range map[string]func(r *rig, s *host, dir string){
		"its own process stops": func(r *rig, s *host, _ string) {
			s.net.Next(1, func(req *http.Request) (*http.Response, error) {
				defer r.strangerDeletesAll("config_log/")
				return s.net.Lose(req)
			})
			s.net.Next(3, func(req *http.Request) (*http.Response, error) { // it is made anew
				defer s.cancel()
				return s.net.To().RoundTrip(req)
			})
			s.logs("k", "1")
			<-s.done
		},
		"the one that claims it is killed": func(r *rig, s *host, dir string) {
			s.cutOffAfter()
			s.logs("k", "1")
			s.kill()
			r.strangerDeletesAll("config_log/")
			second := r.prepare(logged(dir))
			second.killedOnce(func() bool { return r.claimed(second) })
			second.run()
			r.await("it is claimed", time.Minute, func() bool { return r.claimed(second) })
			second.kill()
		},
		"the one that makes a denied write void is killed": func(r *rig, s *host, dir string) {
			s.put("forbidden", "0")
			s.net.Cut(errors.New("cut off"))
			s.logs("forbidden", "1")
			s.logs("k", "1")
			disk, err := os.ReadFile(filepath.Join(dir, "log"))
			must(r.t, err)
			s.net.Cut(nil)
			s.settled()
			s.kill() // the machine, and with it the marks of what was over
			must(r.t, os.WriteFile(filepath.Join(dir, "log"), disk, 0o600))
			r.strangerDeletesAll("config_log/")
			second := r.prepare(logged(dir))
			second.denying("forbidden")
			second.run()
			r.await("it is denied", time.Minute, func() bool {
				return second.Queue().Get().Denied != nil
			})
			second.kill()
		},
	} {
		for _, deleted := range []bool{true, false} {
			t.Run(fmt.Sprint(what, ", deleted: ", deleted), func(t *testing.T) {
				dir := t.TempDir()
				run(t, func(t *testing.T, r *rig) {
					s := r.start(logged(dir)).ready()
					s.put("other", "1")
					if !deleted {
						s.put("k", "0")
					}
					end(r, s, dir)
					r.expect("k", r.raw("config_data/k"), "1")
					if deleted {
						r.strangerDeletes("config_data/k")
					}
					next := r.start(logged(dir)).ready()
					next.settled()
					r.expect("writes", r.times("k=1"), 1)
					refused := 0 // what is as the write makes it
					if deleted {
						refused = 1 // nobody can tell
					}
					r.expect("refused", next.Queue().Get().Refused, refused)
					next.put("k", "2")
				})
			})
		}
	}
}

// Only the writes from before are in doubt. One that was taken in later, and not sent when its
// process was killed, is applied.
func TestAWriteThatWasTakenInAfterTheMarkerWasLostIsInNoDoubt(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("other", "1")
		s.kill()
		r.strangerDeletesAll("config_log/")
		second := r.start(logged(dir)).ready()
		r.await("it is claimed", time.Minute, func() bool { return r.claimed(second) })
		second.net.Cut(errors.New("cut off"))
		second.logs("k", "1")
		second.kill()
		next := r.start(logged(dir)).ready()
		next.settled()
		r.expect("writes", r.times("k=1"), 1)
		r.expect("refused", next.Queue().Get().Refused, 0)
	})
}

// A write without a log is nobody's after its process: the next one begins anew.
func TestAStoreWithoutALogHasNoDoubtsOfTheOneBefore(t *testing.T) {
	one := func(c *configstore.Config) { c.Owner = "one" }
	run(t, func(t *testing.T, r *rig) {
		s := r.start(one).ready()
		s.put("other", "1")
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			defer r.strangerDeletesAll("config_log/")
			return s.net.Lose(req)
		})
		_, err := s.Put(r.ctx(time.Minute), "k", []byte("1"))
		r.isUnknown(err)
		s.kill()
		r.strangerDeletes("config_data/k")
		next := r.start(one).ready()
		next.net.Next(1, unanswered)
		next.put("k", "2")
	})
}
