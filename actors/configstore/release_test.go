package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// unheard has a write applied whose caller leaves without hearing of it.
func (h *host) unheard(key, value string) {
	h.rig.t.Helper()
	h.net.Next(1, h.net.Lose)
	if _, err := h.Put(h.rig.ctx(10*time.Millisecond), key, []byte(value)); !errors.Is(err,
		context.DeadlineExceeded) {
		h.rig.t.Fatal(err)
	}
}

// What the store knows of its marker is not what Consul has when it stops.
func TestACleanStopLeavesNoMarkerBehindThatHasMovedUnheard(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("other", "1")
		s.unheard("k", "1")
		time.Sleep(10 * time.Minute) // nobody asks what became of it
		s.stop()
		r.expect("after a write", r.markers(), "")

		s = r.start().ready()
		s.put("other", "2")
		s.net.Next(3, s.net.Lose) // the write is refused, looked into, and copies of it are made void
		if _, err := s.CompareAndSet(r.ctx(10*time.Millisecond), "k", nil, 0); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Error(err)
		}
		s.stop()
		r.expect("after a refused write", r.markers(), "")

		s = r.prepare()
		s.claimUnheard()
		s.run()
		<-s.done
		r.expect("after it was claimed", r.markers(), "")
	})
}

// What makes the store's marker, or claims it, is on its way when the store is stopped: it arrives
// all the same, and would leave a marker behind if nobody waited for it.
func TestACleanStopLeavesNoMarkerBehindThatIsOnItsWay(t *testing.T) {
	for what, nth := range map[string]int{"to be made": 1, "to be claimed": 2} {
		t.Run(what, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				s := r.prepare()
				s.net.Next(nth, func(req *http.Request) (*http.Response, error) {
					answered, sent := make(chan *http.Response, 1), transport.Copy(req)
					go func() {
						time.Sleep(500 * time.Millisecond)
						resp, err := s.net.To().RoundTrip(sent)
						must(r.t, err)
						answered <- resp
					}()
					s.cancel()
					select {
					case resp := <-answered:
						return resp, nil
					case <-req.Context().Done():
						return nil, req.Context().Err()
					}
				})
				s.run()
				<-s.done
				time.Sleep(time.Second)
				r.expect("markers", r.markers(), "")
			})
		})
	}
}

// claimUnheard has the marker made and claimed, and the store stopped before it hears of the claim.
func (h *host) claimUnheard() {
	h.net.Next(2, func(req *http.Request) (*http.Response, error) {
		defer h.cancel()
		return h.net.Lose(req)
	})
}

// A store that had a marker before knows more than the new one says.
func TestACleanStopLeavesNoMarkerBehindThatWasClaimedAnewUnheard(t *testing.T) {
	for what, again := range map[string]func(r *rig) *host{
		"its supervisor begins it anew": func(r *rig) *host {
			s := startBreakable(r.t, r, "writeQueue")
			s.put("before", "1")
			s.broken.Store(true)
			r.await("it is stopped", 5*time.Minute, func() bool {
				_, _ = s.Put(r.ctx(time.Second), "meanwhile", nil)
				return r.markers() == ""
			})
			s.broken.Store(false)
			s.claimUnheard()
			return s.host
		},
		"another of its name had it": func(r *rig) *host {
			one := func(c *configstore.Config) { c.Owner = "one" }
			s := r.start(one).ready()
			s.put("before", "1")
			other := r.start(one, elsewhere).ready()
			other.put("before", "2")
			_, err := s.Put(r.ctx(time.Second), "before", nil)
			r.expect("it is taken", errors.Is(err, configstore.ErrTaken), true)
			s.claimUnheard()
			other.stop()
			return s
		},
	} {
		t.Run(what, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				s := again(r)
				<-s.done
				r.expect("markers", r.markers(), "")
			})
		})
	}
}

// The marker stays, for the log counts on it. It says what was applied, and is nobody's.
func TestAStopGivesAMarkerUpThatHasMovedUnheard(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("other", "1")
		s.unheard("k", "1")
		s.stop()
		r.strangerDeletes("config_data/k")
		next := r.start(logged(dir), alive)
		next.put("other", "2")
		r.expect("writes", fmt.Sprint(r.times("k=1"), r.times("other=2")), "1 1")
		r.expect("refused", next.Queue().Get().Refused, 0)
	})
}

// A host lives on when its store has stopped, and starts another one, while the marker still says
// that this process has it.
func TestTheNextStoreOfAProcessWritesHoweverTheOneBeforeStopped(t *testing.T) {
	self := func(c *configstore.Config) { c.Process, c.Liveness = nil, nil } // this very process
	one := func(c *configstore.Config) { c.Owner = "one" }
	for what, before := range map[string]func(*host){
		"without Consul": func(h *host) {
			h.run()
			h.ready().put("k", "1")
			h.net.Cut(errors.New("cut off"))
			h.cancel()
		},
		"before it had heard that the marker is its own": func(h *host) {
			h.net.Next(2, func(req *http.Request) (*http.Response, error) {
				defer h.net.Cut(errors.New("cut off"))
				defer h.cancel()
				return h.net.Lose(req)
			})
			h.run()
		},
	} {
		for _, log := range []string{"", t.TempDir()} {
			t.Run(fmt.Sprint(what, ", with a log: ", log != ""), func(t *testing.T) {
				run(t, func(t *testing.T, r *rig) {
					s := r.prepare(self, one, logged(log))
					before(s)
					<-s.done
					next := r.start(self, one, logged(log)).ready()
					next.put("k", "2")

					// One that runs keeps its name for itself.
					if log == "" {
						third := r.start(self, one).ready()
						if _, err := third.Put(r.ctx(time.Minute), "k", nil); !errors.Is(err,
							configstore.ErrTaken) {
							t.Errorf("two write under one name: %v", err)
						}
					}
				})
			})
		}
	}
}
