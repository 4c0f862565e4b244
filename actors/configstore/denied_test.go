package configstore_test

import (
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Consul has taken the write, and denies the requests that would tell so. A caller who hears that
// the write was denied believes that nothing was written.
func TestADenialIsNotSaidOfAWriteThatConsulHasTaken(t *testing.T) {
	for _, c := range []struct {
		what  string
		tries func(consul http.RoundTripper) []transport.Func // nil: as it should be
	}{
		{"the writer ends with the answer in its hands", func(
			consul http.RoundTripper) []transport.Func {
			return []transport.Func{endsItsSender(consul), denied, denied}
		}},
		{"a proxy sends it twice and brings the second answer", func(
			consul http.RoundTripper) []transport.Func {
			return []transport.Func{afterACopy(consul, consul.RoundTrip), denied, denied}
		}},
		{"a proxy denies it after a copy of it got through", func(
			consul http.RoundTripper) []transport.Func {
			return []transport.Func{afterACopy(consul, denied), nil}
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				s := r.start().ready()
				s.put("k", "1")
				for i, try := range c.tries(s.net.To()) {
					if try != nil {
						s.net.Next(i+1, try)
					}
				}
				_, err := s.Put(r.ctx(time.Minute), "k", []byte("2"))
				if err != nil && !errors.Is(err, configstore.ErrUnreachable) ||
					errors.Is(err, configstore.ErrDenied) ||
					errors.Is(err, configstore.ErrConflict) {
					t.Errorf("it was applied, and the caller hears: %v", err)
				}
				r.expect("k", r.raw("config_data/k"), "2")
				s.put("k", "3")
				r.expect("k at last", s.get("k"), "3")
			})
		})
	}
}

// The copy of a refused creation finds that its condition holds after all.
func TestADenialIsNotSaidOfAWriteWhoseRefusedTryWasAppliedLater(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("other", "1")
		consul := s.net.To()
		var refused *http.Request
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			refused = transport.Copy(req)
			r.stranger("config_data/k", "theirs")
			return consul.RoundTrip(req)
		})
		s.net.Next(2, func(req *http.Request) (*http.Response, error) { // what came first?
			defer transport.Again(consul, refused)
			defer r.strangerDeletes("config_data/k")
			return consul.RoundTrip(req)
		})
		s.net.Next(3, denied)
		s.net.Next(4, denied)
		_, err := s.Put(r.ctx(time.Minute), "k", []byte("1"))
		if !errors.Is(err, configstore.ErrUnreachable) || errors.Is(err, configstore.ErrDenied) {
			t.Errorf("it was applied, and the caller hears: %v", err)
		}
		r.expect("k", r.raw("config_data/k"), "1")
	})
}

// endsItsSender delivers a request and ends the goroutine that waits for the answer.
func endsItsSender(consul http.RoundTripper) transport.Func {
	return func(req *http.Request) (*http.Response, error) {
		transport.Again(consul, req)
		runtime.Goexit()
		return nil, nil
	}
}

// afterACopy delivers a copy of a request, and then goes another way with it.
func afterACopy(consul http.RoundTripper, then transport.Func) transport.Func {
	return func(req *http.Request) (*http.Response, error) {
		transport.Again(consul, req)
		return then(req)
	}
}
