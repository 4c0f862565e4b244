package configstore_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
)

// registered has a store of the name one that writes as long as its registration lasts: its index,
// and 0 without one.
func registered(index *messages.State[uint64]) func(*configstore.Config) {
	return func(c *configstore.Config) {
		c.Owner, c.Term = "one", index.Get
		c.Admit = func(ctx context.Context) error {
			_, err := index.Reader().Wait(ctx, func(index uint64) bool { return index != 0 })
			return err
		}
	}
}

// The first one was admitted, and was cut off, or stalled, before it had claimed the marker. The
// next of its name was registered when that was over.
func TestWhoIsAdmittedNoMoreTakesNoMarkerFromItsSuccessor(t *testing.T) {
	for nth := 1; nth <= 3; nth++ { // of its requests about the marker: it is read, made, claimed
		for _, stalls := range []bool{false, true} {
			t.Run(fmt.Sprintf("request %d, stalls=%v", nth, stalls), func(t *testing.T) {
				run(t, func(t *testing.T, r *rig) {
					index := messages.NewState(uint64(1))
					old := r.prepare(registered(index), elsewhere)
					var s *host
					succeed := func() {
						index.Set(0)
						s = r.start(registered(messages.NewState(uint64(2))), elsewhere).ready()
						s.put("k", "1")
					}
					asked, to := 0, r.consul.RoundTripper()
					old.net.Via(transport.When(to, aboutMarker,
						func(req *http.Request) (*http.Response, error) {
							if asked++; asked == nth && stalls {
								succeed()
							} else if asked == nth {
								old.net.Cut(transport.ErrReset)
								return nil, transport.ErrReset
							}
							return to.RoundTrip(req)
						}))
					old.run()
					time.Sleep(30 * time.Second)
					if !stalls {
						succeed()
						old.net.Cut(nil)
					}
					time.Sleep(time.Minute)
					if _, err := s.Put(r.ctx(time.Minute), "k", []byte("2")); err != nil {
						t.Errorf("the one that is registered: %v", err)
					}
					s.stop() // and it is registered anew
					index.Set(3)
					old.put("k", "3")
				})
			})
		}
	}
}

func aboutMarker(r *http.Request) bool {
	return strings.Contains(r.URL.Path+transport.Txn(r), "config_log/one")
}
