package store_test

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// anonymous runs f with a way to an embedded Consul without a token; denied takes its rights away.
func anonymous(t *testing.T, f func(t *testing.T, all, s *store.Store, denied *atomic.Bool)) {
	t.Helper()
	bubble(t, func(t *testing.T, consul *devconsul.Server, all *store.Store) {
		var denied atomic.Bool
		f(t, all, over(t, transport.Anonymous(consul.RoundTripper(), denied.Load)), &denied)
	})
}

func TestAListIsNotEmptyBecauseItMayNotBeRead(t *testing.T) {
	anonymous(t, func(t *testing.T, all, s *store.Store, denied *atomic.Bool) {
		must(t, all.Put(t.Context(), "p/a", nil, 0))
		denied.Store(true)
		_, _, listed := s.List(t.Context(), "p/", store.Consistent)
		_, named := s.ListKeys(t.Context(), "p/", "/")
		_, watched := s.WatchPrefix("p/").Next(t.Context())
		for _, err := range []error{listed, named, watched} {
			if wantKind(t, err, store.ErrDenied, false); err != nil {
				wantText(t, err, "key_prefix:", `"p/"`)
			}
		}
	})
}

// The rules may allow some keys: what they name below a prefix is no whole list of it.
func TestAListIsNotWhatAloneOfItMayBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, all *store.Store) {
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
	anonymous(t, func(t *testing.T, all, s *store.Store, denied *atomic.Bool) {
		must(t, all.Put(t.Context(), "p/a", nil, 0))
		w := s.WatchPrefix("p/")
		_, err := w.Next(t.Context())
		must(t, err)
		denied.Store(true)
		time.AfterFunc(time.Second, func() {
			denied.Store(false)
			must(t, all.Put(t.Context(), "p/b", nil, 0))
		})
		if v, err := w.Next(t.Context()); err != nil || len(v.Entries) != 2 {
			t.Errorf("it sees %v, error %v", v.Entries, err)
		}
	})
}

// An agent may take no writes, by allow_write_http_from, nor may a proxy before it. A transaction
// is one to them, also where it only reads.
func TestAnEmptyListIsReadAlsoWhereNothingMayBeWritten(t *testing.T) {
	for body, status := range map[string]int{"Access is restricted": http.StatusForbidden,
		"<h1>403 Forbidden</h1>":     http.StatusForbidden,
		"405 method PUT not allowed": http.StatusMethodNotAllowed} {
		bubble(t, func(t *testing.T, consul *devconsul.Server, all *store.Store) {
			var denied, comes atomic.Bool
			s := over(t, transport.When(transport.Anonymous(consul.RoundTripper(), denied.Load),
				transport.Writes, func(r *http.Request) (*http.Response, error) {
					if comes.Load() {
						must(t, all.Put(t.Context(), "p/a/1", nil, 0))
					}
					return transport.Answer(r, status, body), nil
				}))
			reads := func(when string, want int, kind error) {
				t.Helper()
				listed, _, err := s.List(t.Context(), "p/", store.Consistent)
				if len(listed) != want || !errors.Is(err, kind) {
					t.Errorf("%q, %s: a list has %d keys, error %v", body, when, len(listed), err)
				}
				named, err := s.ListKeys(t.Context(), "p/", "/")
				if len(named) != want || !errors.Is(err, kind) {
					t.Errorf("%q, %s: %d names, error %v", body, when, len(named), err)
				}
			}
			reads("empty", 0, nil)
			denied.Store(true)
			reads("denied", 0, store.ErrDenied)
			denied.Store(false)
			comes.Store(true)
			reads("one that comes", 1, nil)
		})
	}
}

// Consul's own refusal of the transaction says what is the matter: nothing is read in its place.
func TestARefusalOfConsulsRulesIsAskedForNoReads(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, _ *store.Store) {
		asked := 0
		s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
			asked++
			if transport.Writes(r) {
				return transport.Answer(r, http.StatusForbidden,
					`Permission denied: token lacks permission 'key:read' on "p/_"`), nil
			}
			return consul.RoundTripper().RoundTrip(r)
		}))
		_, _, err := s.List(t.Context(), "p/", store.Consistent)
		if !errors.Is(err, store.ErrDenied) || asked != 2 {
			t.Errorf("error %v after %d requests, want the list and the transaction", err, asked)
		}
	})
}

// What comes between the two looks at an empty prefix is seen, under the names of a list.
func TestWhatComesJustAfterAnEmptyListIsInIt(t *testing.T) {
	for separator, want := range map[string][]string{
		"":  {"p/", "p/a/1", "p/a/2", "p/b", "p/c/1"},
		"/": {"p/", "p/a/", "p/b", "p/c/"},
	} {
		bubble(t, func(t *testing.T, consul *devconsul.Server, all *store.Store) {
			s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
				resp, err := consul.RoundTripper().RoundTrip(r)
				if r.URL.Query().Has("keys") {
					for _, key := range []string{"p/", "p/a/1", "p/a/2", "p/b", "p/c/1"} {
						must(t, all.Put(t.Context(), key, []byte("v"), 0))
					}
				}
				return resp, err
			}))
			got, err := s.ListKeys(t.Context(), "p/", separator)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("by %q: %q, error %v; want %q", separator, got, err, want)
			}
		})
	}
}

// Whoever takes over waits for one answer, and about one that lives not for that about its own.
func TestASessionIsLookedForBesideItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, all *store.Store) {
		const answer = 200 * time.Millisecond
		own := ""
		slow := transport.Slow(consul.RoundTripper(), func() time.Duration { return answer })
		aboutOwn, silent := func(r *http.Request) bool {
			return own != "" && strings.HasSuffix(r.URL.Path, own)
		}, atomic.Bool{}
		s := over(t, transport.When(slow, func(r *http.Request) bool {
			return silent.Load() && aboutOwn(r)
		}, transport.Hang))
		r := store.Renewal{Store: s, Every: store.DefaultTTL / 3,
			Log:     slog.New(slog.DiscardHandler),
			Session: store.SessionOptions{Name: "own", TTL: store.DefaultTTL}}
		id, _, err := r.Ask(t.Context(), "")
		must(t, err)
		own = id
		look := func(id string, want bool) {
			t.Helper()
			began := time.Now()
			exists, err := s.SessionExists(t.Context(), id)
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
	bubble(t, func(t *testing.T, consul *devconsul.Server, all *store.Store) {
		hidden := true
		s := over(t, transport.When(consul.RoundTripper(), func(r *http.Request) bool {
			return hidden && strings.Contains(r.URL.Path, "/session/info/")
		}, always(200, "[]", "X-Consul-Index", "7", "X-Consul-KnownLeader", "true")))
		other := session(t, all)
		exists := func() (bool, error) { return s.SessionExists(t.Context(), other) }
		r := store.Renewal{Store: s, Every: store.DefaultTTL / 3,
			Log:     slog.New(slog.DiscardHandler),
			Session: store.SessionOptions{Name: "own", TTL: store.DefaultTTL}}
		own, _, err := r.Ask(t.Context(), "")
		must(t, err)
		if _, err := exists(); !errors.Is(err, store.ErrDenied) {
			t.Errorf("without a right to any session the other one is over: error %v", err)
		}
		if there, err := s.SessionExists(t.Context(), own); there || err != nil {
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
