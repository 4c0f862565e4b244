package store_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// anonymous runs f with a way to an embedded Consul without a token; denied takes its rights away.
func anonymous(t *testing.T, f func(t *testing.T, all, s store.Store, denied *atomic.Bool)) {
	t.Helper()
	bubble(t, func(t *testing.T, consul *devconsul.Server, all store.Store) {
		var denied atomic.Bool
		f(t, all, over(t, transport.Anonymous(consul.RoundTripper(), denied.Load)), &denied)
	})
}

func TestAListIsNotEmptyBecauseItMayNotBeRead(t *testing.T) {
	anonymous(t, func(t *testing.T, all, s store.Store, denied *atomic.Bool) {
		must(t, keys.Put(t.Context(), all, "p/a", nil, 0))
		denied.Store(true)
		_, _, listed := s.List(t.Context(), "p/", store.Consistent)
		_, _, named := s.ListKeys(t.Context(), "p/", "/")
		_, watched := store.WatchPrefix(s, "p/").Next(t.Context())
		for _, err := range []error{listed, named, watched} {
			if wantKind(t, err, store.ErrDenied, false); err != nil {
				wantText(t, err, "key_prefix:", `"p/"`)
			}
		}
	})
}

// The rules may allow some keys: what they name below a prefix is no whole list of it.
func TestAListIsNotWhatAloneOfItMayBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, all store.Store) {
		s := over(t, transport.When(transport.When(consul.RoundTripper(), transport.Writes,
			func(r *http.Request) (*http.Response, error) {
				return transport.Answer(r, http.StatusOK, `{"Results":[{"KV":{"Key":"p/a",`+
					`"CreateIndex":7,"ModifyIndex":7}}],"Errors":null}`), nil
			}), func(r *http.Request) bool { return r.URL.Query().Has("recurse") },
			always(404, "", "X-Consul-Index", "7", "X-Consul-KnownLeader", "true")))
		entries, _, err := s.List(t.Context(), "p/", store.Consistent)
		if !errors.Is(err, store.ErrDenied) {
			t.Errorf("it has %v, error %v", entries, err)
		}
	})
}

// The token has lost its rights when a poll begins, and has them again when its answer comes.
func TestAPollIsAnsweredByTheRightsOfItsBeginning(t *testing.T) {
	anonymous(t, func(t *testing.T, all, s store.Store, denied *atomic.Bool) {
		must(t, keys.Put(t.Context(), all, "p/a", nil, 0))
		w := store.WatchPrefix(s, "p/")
		_, err := w.Next(t.Context())
		must(t, err)
		denied.Store(true)
		time.AfterFunc(time.Second, func() {
			denied.Store(false)
			must(t, keys.Put(t.Context(), all, "p/b", nil, 0))
		})
		if v, err := w.Next(t.Context()); err != nil || len(v.Entries) != 2 {
			t.Errorf("it sees %v, error %v", v.Entries, err)
		}
	})
}

// What comes between the two looks at an empty prefix is seen, under the names of a list.
func TestWhatComesJustAfterAnEmptyListIsInIt(t *testing.T) {
	for separator, want := range map[string][]string{
		"":  {"p/", "p/a/1", "p/a/2", "p/b", "p/c/1"},
		"/": {"p/", "p/a/", "p/b", "p/c/"},
	} {
		bubble(t, func(t *testing.T, consul *devconsul.Server, all store.Store) {
			s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
				resp, err := consul.RoundTripper().RoundTrip(r)
				if r.URL.Query().Has("keys") {
					for _, key := range []string{"p/", "p/a/1", "p/a/2", "p/b", "p/c/1"} {
						must(t, keys.Put(t.Context(), all, key, []byte("v"), 0))
					}
				}
				return resp, err
			}))
			got, _, err := s.ListKeys(t.Context(), "p/", separator)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("by %q: %q, error %v; want %q", separator, got, err, want)
			}
		})
	}
}

// Whoever takes over waits for one answer, and about one that lives not for that about its own.
func TestASessionIsLookedForBesideItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, all store.Store) {
		const answer = 200 * time.Millisecond
		own := ""
		slow := transport.Slow(consul.RoundTripper(), func() time.Duration { return answer })
		aboutOwn, silent := func(r *http.Request) bool {
			return own != "" && strings.HasSuffix(r.URL.Path, own)
		}, atomic.Bool{}
		s := over(t, transport.When(slow, func(r *http.Request) bool {
			return silent.Load() && aboutOwn(r)
		}, transport.Hang))
		r := renewal(s)
		id, _, err := r.Ask(t.Context(), "")
		must(t, err)
		own = id
		look := func(id string, want bool) {
			t.Helper()
			began := time.Now()
			_, exists, err := s.SessionInfo(t.Context(), id)
			if took := time.Since(began); exists != want || err != nil || took != answer {
				t.Errorf("it exists: %v, error %v, after %v; want %v after %v", exists, err, took,
					want, answer)
			}
		}
		other := session(t, all)
		silent.Store(true)
		look(other, true)
		silent.Store(false)
		look(other, true)
		look(own, true)
		must(t, all.DestroySession(t.Context(), other))
		look(other, false)
	})
}

// Without a token Consul shows no session that may not be read, and does not say so.
func TestASessionIsNotOverBecauseItMayNotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, all store.Store) {
		hidden := true
		s := over(t, transport.When(consul.RoundTripper(), func(r *http.Request) bool {
			return hidden && strings.Contains(r.URL.Path, "/session/info/")
		}, always(200, "[]", "X-Consul-Index", "7", "X-Consul-KnownLeader", "true")))
		other := session(t, all)
		exists := func() (bool, error) {
			_, exists, err := s.SessionInfo(t.Context(), other)
			return exists, err
		}
		r := renewal(s)
		own, _, err := r.Ask(t.Context(), "")
		must(t, err)
		if _, err := exists(); !errors.Is(err, store.ErrDenied) {
			t.Errorf("without a right to any session the other one is over: error %v", err)
		}
		if _, there, err := s.SessionInfo(t.Context(), own); there || err != nil {
			t.Errorf("its own: %v, error %v", there, err)
		}
		hidden = false
		if there, err := exists(); !there || err != nil {
			t.Errorf("the other one lives: %v, error %v", there, err)
		}
		must(t, all.DestroySession(t.Context(), other))
		if there, err := exists(); there || err != nil {
			t.Errorf("the other one has ended: %v, error %v", there, err)
		}
	})
}
